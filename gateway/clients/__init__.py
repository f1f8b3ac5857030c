"""How clients come in, and what they are answered without an engine."""
