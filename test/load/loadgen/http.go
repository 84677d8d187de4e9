package loadgen

import (
	"bytes"
	"errors"
	"fmt"
)

// request is the bytes of one HTTP/1.1 request with room for a key, rendered
// once; before each sending only the digits are rewritten.
type request struct {
	bytes  []byte
	digits int // where the key's eight digits begin
}

const keyDigits = 8

// newRequest renders a GET with the headers that an ordinary API client sends,
// and the key in x-user-id.
func newRequest(path string) request {
	head := "GET " + path + " HTTP/1.1\r\n" +
		"host: api.example.com\r\n" +
		"user-agent: weir-load/1\r\n" +
		"accept: application/json\r\n" +
		"accept-encoding: gzip\r\n" +
		"x-user-id: user-"
	return request{
		bytes:  []byte(head + "00000000\r\n\r\n"),
		digits: len(head),
	}
}

func (r request) clone() request {
	r.bytes = bytes.Clone(r.bytes)
	return r
}

func (request) greeting() []byte { return nil }

func (r request) request(key uint32) []byte {
	setDigits(r.bytes[r.digits:][:keyDigits], key)
	return r.bytes
}

func (request) take(b []byte) (status, n int, answer []byte, err error) {
	status, n, err = parseReply(b)
	return status, n, nil, err
}

// setDigits writes key in decimal, with leading zeros.
func setDigits(digits []byte, key uint32) {
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + key%10)
		key /= 10
	}
}

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("\ncontent-length:")
)

// parseReply reads one reply from the front of b. It returns its status and its
// length in bytes; length 0 means that b does not hold all of it yet. Replies
// without content-length are errors: no server here sends any, and taking one
// for complete would shift every later reply of the connection.
func parseReply(b []byte) (status, length int, err error) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return 0, 0, nil
	}
	head := b[:end+2]
	status, err = parseStatus(head)
	if err != nil {
		return 0, 0, err
	}
	body, err := bodyLength(head)
	if err != nil {
		return 0, 0, err
	}
	length = end + len(headEnd) + body
	if length > len(b) {
		return 0, 0, nil
	}
	return status, length, nil
}

func parseStatus(head []byte) (int, error) {
	if len(head) < 12 || !bytes.HasPrefix(head, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("not an HTTP/1.1 reply: %.40q", head)
	}
	status := 0
	for _, c := range head[9:12] {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("not an HTTP/1.1 reply: %.40q", head)
		}
		status = status*10 + int(c-'0')
	}
	if status < 200 || status > 599 {
		return 0, fmt.Errorf("status %d is not a final reply", status)
	}
	return status, nil
}

// bodyLength is the value of content-length. Envoy writes header names in lower
// case.
func bodyLength(head []byte) (int, error) {
	at := bytes.Index(head, contentLength)
	if at < 0 {
		return 0, errors.New("the reply has no content-length")
	}
	n := 0
	for _, c := range head[at+len(contentLength):] {
		switch {
		case c >= '0' && c <= '9' && n < maxReply:
			n = n*10 + int(c-'0')
		case c == ' ':
		case c == '\r':
			return n, nil
		default:
			return 0, fmt.Errorf("content-length is not a number up to %d", maxReply)
		}
	}
	return 0, errors.New("the reply's content-length does not end")
}
