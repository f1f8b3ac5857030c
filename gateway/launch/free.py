"""Could an engine that is launched listen on a port now?"""

import socket

HOST = "127.0.0.1"  # where they all listen


def is_free(port: int) -> bool:
    """Whether an engine could listen there now."""
    for host in (HOST, "0.0.0.0"):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((host, port))
            except OSError:
                return False
    return True
