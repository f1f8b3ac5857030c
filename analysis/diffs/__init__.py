"""How do answers part from the control's, taken apart?  By token, length and finish reason: a file each."""
