"""Local ports and sockets that lead to ports of an endpoint."""
