"""HTTP/2 by hand, for what grpcio hides: every frame is seen, and any bytes can be sent.

Frames are parsed by hyperframe, header blocks by hpack. Nothing runs in the background:
pump() reads until a condition holds. Set `ack_pings` or `grant` to False to be a peer that
does not answer pings or gives no flow-control window back.
"""

import socket
import struct
import time

import hpack
from hyperframe import frame as hf

from .proto import METHODS

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STATUS = {
    0: "OK", 1: "CANCELLED", 2: "UNKNOWN", 3: "INVALID_ARGUMENT", 4: "DEADLINE_EXCEEDED",
    5: "NOT_FOUND", 6: "ALREADY_EXISTS", 7: "PERMISSION_DENIED", 8: "RESOURCE_EXHAUSTED",
    9: "FAILED_PRECONDITION", 10: "ABORTED", 11: "OUT_OF_RANGE", 12: "UNIMPLEMENTED",
    13: "INTERNAL", 14: "UNAVAILABLE", 15: "DATA_LOSS", 16: "UNAUTHENTICATED",
}


def grpc_frame(message, compressed=False):
    return struct.pack(">BI", 1 if compressed else 0, len(message)) + message


class Stream:
    """What came on one stream."""

    def __init__(self, id):
        self.id = id
        self.headers = None
        self.trailers = None
        self.data = b""
        self.ended = False
        self.reset = None
        self.unread = 0

    @property
    def messages(self):
        out, rest = [], self.data
        while len(rest) >= 5:
            (length,) = struct.unpack(">I", rest[1:5])
            if len(rest) < 5 + length:
                break
            out.append(rest[5 : 5 + length])
            rest = rest[5 + length :]
        return out

    @property
    def status(self):
        """(code name, message) of the trailers, or None."""
        for block in (self.trailers, self.headers):
            d = dict(block or ())
            if "grpc-status" in d:
                import urllib.parse
                return (
                    STATUS[int(d["grpc-status"])],
                    urllib.parse.unquote(d.get("grpc-message", "")),
                )
        return None

    @property
    def over(self):
        return self.ended or self.reset is not None


class H2:
    def __init__(self, host, port, window=1 << 30, frame_size=16384, agent="raw-h2/1",
                 ack_pings=True, grant=True, connect=True, settings=None, rcvbuf=None):
        self.ack_pings = ack_pings
        self.grant = grant
        self.agent = agent
        self.window = window
        self.initial = {hf.SettingsFrame.INITIAL_WINDOW_SIZE: min(window, (1 << 31) - 1),
                        hf.SettingsFrame.MAX_FRAME_SIZE: frame_size, **(settings or {})}
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.decoder.max_allowed_table_size = 65536
        self.decoder.max_header_list_size = 1 << 20
        self.buffer = b""
        self.streams = {}
        self.frames = []
        self.goaways = []
        self.pings_seen = 0
        self.pongs = []
        self.peer = {}
        self.closed = False
        self.next_id = 1
        self.send_window = 65535
        self.stream_windows = {}
        self._block = None
        self.sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        if rcvbuf:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        self.sock.settimeout(20)
        self.sock.connect((host.strip("[]"), port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if connect:
            self.handshake()

    # Sending.

    def send(self, data):
        self.sock.sendall(data)

    def send_frame(self, f):
        self.send(f.serialize())

    def handshake(self):
        s = hf.SettingsFrame(0)
        s.settings = dict(self.initial)
        first = PREFACE + s.serialize()
        if self.window > 65535:
            w = hf.WindowUpdateFrame(0)
            w.window_increment = self.window - 65535
            first += w.serialize()
        self.send(first)
        self.pump(lambda: self.peer, 10)

    def headers_for(self, path, headers=(), timeout=None):
        h = [
            (":method", "POST"), (":scheme", "http"), (":path", path),
            (":authority", "localhost"), ("te", "trailers"),
            ("content-type", "application/grpc"), ("user-agent", self.agent),
        ]
        if timeout:
            h.append(("grpc-timeout", timeout))
        return h + list(headers)

    def open(self, path, headers=(), timeout=None, end=False, raw_headers=None):
        """Sends HEADERS; gives the Stream."""
        id = self.next_id
        self.next_id += 2
        s = self.streams[id] = Stream(id)
        self.stream_windows[id] = self.peer.get(hf.SettingsFrame.INITIAL_WINDOW_SIZE, 65535)
        block = self.encoder.encode(
            raw_headers or self.headers_for(path, headers, timeout), huffman=False)
        size = 16384
        parts = [block[i : i + size] for i in range(0, len(block), size)] or [b""]
        out = b""
        for i, part in enumerate(parts):
            f = hf.HeadersFrame(id) if i == 0 else hf.ContinuationFrame(id)
            f.data = part
            if i == len(parts) - 1:
                f.flags.add("END_HEADERS")
            if i == 0 and end:
                f.flags.add("END_STREAM")
            out += f.serialize()
        self.send(out)
        return s

    def data(self, stream, data, end=True, size=16384):
        """Sends DATA within the windows, in frames of at most `size`."""
        at = 0
        while at < len(data) or (end and not data):
            room = min(self.send_window, self.stream_windows[stream.id])
            if data and room <= 0:
                self.pump(
                    lambda: min(self.send_window, self.stream_windows[stream.id]) > 0
                    or stream.over or self.closed, 20)
                if stream.over or self.closed:
                    return False
                continue
            part = data[at : at + min(size, room)] if data else b""
            at += len(part)
            f = hf.DataFrame(stream.id)
            f.data = part
            if end and at >= len(data):
                f.flags.add("END_STREAM")
            self.send_window -= len(part)
            self.stream_windows[stream.id] -= len(part)
            self.send_frame(f)
            if not data:
                break
        return True

    def start(self, method, request, headers=(), timeout=None, hub=None):
        """Sends a whole call; gives the Stream without waiting."""
        path = METHODS[method].path if method in METHODS else method
        body = request if isinstance(request, bytes) else request.SerializeToString()
        extra = list(headers) + ([("taskhub", hub)] if hub else [])
        s = self.open(path, extra, timeout)
        self.data(s, grpc_frame(body))
        return s

    def call(self, method, request, wait=20, **kw):
        """A unary call: the Stream, when it is over."""
        s = self.start(method, request, **kw)
        self.pump(lambda: s.over, wait)
        return s

    def rst(self, stream, code=8):
        f = hf.RstStreamFrame(stream.id)
        f.error_code = code
        self.send_frame(f)

    def ping(self, payload=b"12345678"):
        f = hf.PingFrame(0)
        f.opaque_data = payload
        self.send_frame(f)

    def window_update(self, stream_id, n):
        f = hf.WindowUpdateFrame(stream_id)
        f.window_increment = n
        self.send_frame(f)

    # Receiving.

    def pump(self, until=None, timeout=10, must=True):
        """Reads frames until until() holds; False (or a failure, if must) at the time-out."""
        end = time.monotonic() + timeout
        while True:
            if until is not None and until():
                return True
            left = end - time.monotonic()
            if left <= 0 or self.closed:
                if until is not None and must:
                    raise AssertionError(
                        "%s; frames so far: %s"
                        % ("connection closed" if self.closed else "nothing in %s s" % timeout,
                           self.frames[-20:]))
                return False
            self.sock.settimeout(min(left, 1))
            try:
                got = self.sock.recv(1 << 16)
            except (TimeoutError, socket.timeout):
                continue
            except OSError:
                got = b""
            if not got:
                self.closed = True
                continue
            self.buffer += got
            self._parse()

    def _parse(self):
        buffer, at = self.buffer, 0
        while len(buffer) - at >= 9:
            f, length = hf.Frame.parse_frame_header(memoryview(buffer[at : at + 9]))
            if len(buffer) - at < 9 + length:
                break
            f.parse_body(memoryview(buffer[at + 9 : at + 9 + length]))
            at += 9 + length
            self._frame(f)
        self.buffer = buffer[at:]

    def _stream(self, id):
        return self.streams.setdefault(id, Stream(id))

    def _frame(self, f):
        name = type(f).__name__[:-5]
        note = (name, f.stream_id)
        if isinstance(f, hf.SettingsFrame):
            if "ACK" not in f.flags:
                self.peer.update(f.settings)
                self.peer.setdefault(hf.SettingsFrame.INITIAL_WINDOW_SIZE, 65535)
                a = hf.SettingsFrame(0)
                a.flags.add("ACK")
                self._quiet(a)
        elif isinstance(f, hf.PingFrame):
            if "ACK" in f.flags:
                self.pongs.append(f.opaque_data)
            else:
                self.pings_seen += 1
                if self.ack_pings:
                    a = hf.PingFrame(0)
                    a.flags.add("ACK")
                    a.opaque_data = f.opaque_data
                    self._quiet(a)
        elif isinstance(f, hf.GoAwayFrame):
            self.goaways.append((f.error_code, f.last_stream_id, bytes(f.additional_data)))
            note += (f.error_code, f.last_stream_id)
        elif isinstance(f, hf.WindowUpdateFrame):
            if f.stream_id == 0:
                self.send_window += f.window_increment
            else:
                self.stream_windows[f.stream_id] = (
                    self.stream_windows.get(f.stream_id, 0) + f.window_increment)
        elif isinstance(f, hf.RstStreamFrame):
            self._stream(f.stream_id).reset = f.error_code
            note += (f.error_code,)
        elif isinstance(f, hf.DataFrame):
            s = self._stream(f.stream_id)
            s.data += f.data
            if self.grant and f.flow_controlled_length:
                for id in (0, f.stream_id):
                    w = hf.WindowUpdateFrame(id)
                    w.window_increment = f.flow_controlled_length
                    if not (id and "END_STREAM" in f.flags):
                        self._quiet(w)
            note += (len(f.data),)
            if "END_STREAM" in f.flags:
                s.ended = True
        elif isinstance(f, (hf.HeadersFrame, hf.ContinuationFrame)):
            if isinstance(f, hf.HeadersFrame):
                self._block = (f.data, "END_STREAM" in f.flags)
            else:
                self._block = (self._block[0] + f.data, self._block[1])
            if "END_HEADERS" in f.flags:
                block, ends = self._block
                fields = [(_text(k), _text(v)) for k, v in self.decoder.decode(block, raw=True)]
                s = self._stream(f.stream_id)
                if s.headers is None:
                    s.headers = fields
                else:
                    s.trailers = fields
                if ends:
                    s.ended = True
        self.frames.append(note)

    def _quiet(self, f):
        try:
            self.send(f.serialize())
        except OSError:
            pass

    def alive(self, timeout=10):
        """The connection still answers a ping."""
        before = len(self.pongs)
        self.ping(b"aliveals")
        return self.pump(lambda: len(self.pongs) > before, timeout, must=False)

    def close(self):
        try:
            self.sock.close()
        except OSError:
            pass


def _text(b):
    return b.decode("utf-8", "replace") if isinstance(b, (bytes, memoryview)) else b
