"""Receives file descriptors over a socket, for programs that start on a bare interpreter.

The module `socket` has this too, but its import takes 8 ms, a third of the start of the guardian and of a worker. Both
use its C part, `_socket`, and this.
"""

import _socket
import os
import sys


def receive_descriptors(channel: _socket.socket, size: int, most: int) -> tuple[bytes, list[int]]:
    """Up to `size` bytes, and up to `most` descriptors that came with them; none is inherited by children."""
    data, ancillary, _, _ = channel.recvmsg(size, _socket.CMSG_SPACE(4 * most))
    descriptors = [
        int.from_bytes(content[at : at + 4], sys.byteorder)
        for level, kind, content in ancillary
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS)
        for at in range(0, len(content) - 3, 4)
    ]
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return data, descriptors
