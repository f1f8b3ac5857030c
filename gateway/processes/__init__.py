"""How the processes live: started, told what to serve, watched, renewed, ended."""
