"""A TCP proxy that can stop forwarding without closing anything: a frozen peer."""

import selectors
import socket
import struct
import threading


class Proxy:
    """Forwards 127.0.0.1:port to host:port. freeze() stops both ways; cut() resets everything."""

    def __init__(self, host, port):
        self.upstream = (host, port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.target = "127.0.0.1:%d" % self.port
        self.to_server = True
        self.to_client = True
        self.closed = False
        self.pairs = []
        self.bytes_to_client = 0
        self.lock = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while not self.closed:
            try:
                a, _ = self.listener.accept()
            except OSError:
                return
            try:
                b = socket.create_connection(self.upstream, 5)
            except OSError:
                a.close()
                continue
            b.settimeout(None)
            with self.lock:
                self.pairs.append((a, b))
            for src, dst, way in ((a, b, "to_server"), (b, a, "to_client")):
                threading.Thread(target=self._pump, args=(src, dst, way), daemon=True).start()

    def _pump(self, src, dst, way):
        try:
            while True:
                with self.lock:
                    while not getattr(self, way) and not self.closed:
                        self.lock.wait(1)
                data = src.recv(65536)
                if not data:
                    break
                with self.lock:
                    while not getattr(self, way) and not self.closed:
                        self.lock.wait(1)
                    if way == "to_client":
                        self.bytes_to_client += len(data)
                dst.sendall(data)
        except OSError:
            pass
        if self.closed or (self.to_server and self.to_client):
            for s in (src, dst):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def freeze(self, to_server=False, to_client=False):
        """What still flows: nothing unless said."""
        with self.lock:
            self.to_server, self.to_client = to_server, to_client
            self.lock.notify_all()

    def thaw(self):
        self.freeze(True, True)

    def server_closed(self, timeout):
        """Waits until the server closed a connection to the proxy while it is frozen."""
        sel = selectors.DefaultSelector()
        with self.lock:
            for _, b in self.pairs:
                sel.register(b, selectors.EVENT_READ)
        return bool(sel.select(timeout))

    def cut(self):
        """Resets every connection."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for a, b in pairs:
            for s in (a, b):
                try:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    s.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads it
                    s.close()
                except OSError:
                    pass

    def close(self):
        self.closed = True
        with self.lock:
            self.lock.notify_all()
        self.listener.close()
        self.cut()
