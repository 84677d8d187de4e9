package drive

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// patience is how long a request may take before it counts as failed.
const patience = 30 * time.Second

// conn is one client connection, opened when it is first used.
type conn struct {
	net.Conn
	in *bufio.Reader
}

func (c *conn) close() {
	if c.Conn != nil {
		c.Conn.Close()
		c.Conn = nil
	}
}

// exchange sends a request and returns the status of its answer, whose body it
// reads and drops.
func (c *conn) exchange(addr string, request []byte) (int, error) {
	if c.Conn == nil {
		tcp, err := net.Dial("tcp", addr)
		if err != nil {
			time.Sleep(10 * time.Millisecond) // refused: not at once again
			return 0, err
		}
		c.Conn, c.in = tcp, bufio.NewReader(tcp)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	return c.answer()
}

// answer reads one response of HTTP/1.1 to a GET (RFC 9112 section 6): a body of
// content-length, or chunked, or none.
func (c *conn) answer() (int, error) {
	line, err := c.line()
	if err != nil {
		return 0, err
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("not a response of HTTP/1.1: %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, fmt.Errorf("status: %w", err)
	}
	length, chunked, closing := 0, false, false
	for {
		line, err := c.line()
		if err != nil {
			return 0, err
		}
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("content-length")):
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, fmt.Errorf("content-length: %w", err)
			}
		case bytes.EqualFold(name, []byte("transfer-encoding")):
			chunked = true
		case bytes.EqualFold(name, []byte("connection")):
			closing = bytes.EqualFold(value, []byte("close"))
		}
	}
	if chunked {
		err = c.dropChunks()
	} else {
		_, err = c.in.Discard(length)
	}
	if closing {
		c.close()
	}
	return status, err
}

func (c *conn) dropChunks() error {
	for {
		line, err := c.line()
		if err != nil {
			return err
		}
		size, err := strconv.ParseUint(string(line), 16, 31)
		if err != nil {
			return fmt.Errorf("chunk: %w", err)
		}
		if _, err := c.in.Discard(int(size) + len("\r\n")); err != nil || size == 0 {
			return err
		}
	}
}

// line returns the next line without its end. It is valid until the next read.
func (c *conn) line() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(line, []byte("\r\n")) {
		return nil, errors.New("line does not end in CRLF")
	}
	return line[:len(line)-2], nil
}
