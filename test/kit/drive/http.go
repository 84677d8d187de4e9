package drive

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// http1 speaks HTTP/1.1: each appends the request with a key to a buffer.
type http1 struct {
	each func(buf []byte, key int64) []byte
	buf  []byte
}

func (*http1) greeting() []byte { return nil }

func (h *http1) request(key uint32) []byte {
	h.buf = h.each(h.buf[:0], int64(key))
	return h.buf
}

func (*http1) take(b []byte) (part, error) { return parseReply(b) }

const keyDigits = 8

// keyed makes a GET with the headers that an ordinary API client sends, and the key in x-user-id.
func keyed(path string) func(buf []byte, key int64) []byte {
	head := "GET " + path + " HTTP/1.1\r\n" +
		"host: api.example.com\r\n" +
		"user-agent: weir-load/1\r\n" +
		"accept: application/json\r\n" +
		"accept-encoding: gzip\r\n" +
		"x-user-id: user-"
	return func(buf []byte, key int64) []byte {
		buf = append(append(buf, head...), "00000000\r\n\r\n"...)
		setDigits(buf[len(head):][:keyDigits], uint32(key))
		return buf
	}
}

// setDigits writes key in decimal, with leading zeros.
func setDigits(digits []byte, key uint32) {
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + key%10)
		key /= 10
	}
}

// Envoy writes header names in lower case.
var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("\ncontent-length:")
	chunked       = []byte("\ntransfer-encoding: chunked\r")
	closing       = []byte("\nconnection: close\r")
)

// parseReply reads one reply to a GET from the front of b. A reply without a mark of
// its end is an error: taking it for complete would shift every later reply of the
// connection.
func parseReply(b []byte) (part, error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return part{}, nil
	}
	head, body := b[:end+2], b[end+len(headEnd):]
	status, err := parseStatus(head)
	if err != nil {
		return part{}, err
	}
	length, err := bodyLength(status, head, body)
	if err != nil || length < 0 || length > len(body) {
		return part{}, err
	}
	return part{n: end + len(headEnd) + length, status: status, last: bytes.Contains(head, closing)}, nil
}

func parseStatus(head []byte) (int, error) {
	if len(head) < 12 || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("not an HTTP/1.1 reply: %.40q", head)
	}
	if status, err := strconv.Atoi(string(head[9:12])); err == nil && status >= 200 && status <= 599 {
		return status, nil
	}
	return 0, fmt.Errorf("not a final reply: %.40q", head)
}

// bodyLength is how long a body is (RFC 9112, section 6.3); less than 0: it does not end
// yet.
func bodyLength(status int, head, body []byte) (int, error) {
	at := bytes.Index(head, contentLength)
	switch {
	case at >= 0:
	case bytes.Contains(head, chunked):
		return chunkedLength(body)
	case status == 204 || status == 304:
		return 0, nil
	default:
		return 0, errors.New("the reply has no content-length")
	}
	text, _, _ := bytes.Cut(head[at+len(contentLength):], []byte("\r"))
	n, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil || n < 0 || n > maxReply {
		return 0, fmt.Errorf("content-length %q is not a number up to %d", text, maxReply)
	}
	return n, nil
}

// chunkedLength is how long a body of chunks is, without trailers.
func chunkedLength(body []byte) (int, error) {
	for at := 0; ; {
		line := bytes.Index(body[at:], []byte("\r\n"))
		if line < 0 {
			return -1, nil
		}
		size, err := strconv.ParseUint(string(body[at:at+line]), 16, 31)
		if err != nil {
			return 0, fmt.Errorf("chunk: %w", err)
		}
		at += line + int(size) + 2*len("\r\n")
		if at > len(body) {
			return -1, nil
		}
		if size == 0 {
			return at, nil
		}
	}
}
