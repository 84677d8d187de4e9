package drive

import (
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// maxReply is the largest reply that is understood.
const maxReply = 16 << 10

// protocol is what one connection speaks. Slices that it returns hold until it is
// called again.
type protocol interface {
	// greeting begins a new connection, and forgets the one before.
	greeting() []byte
	// request is the next request, with this key.
	request(key uint32) []byte
	// take looks at the front of b, which is all that was read and not yet understood.
	take(b []byte) (part, error)
}

// part is the front of what was read.
type part struct {
	n      int    // bytes that are understood; 0: there have to be more
	status int    // 200 to 599: they complete a reply
	last   bool   // the server ends the connection after it
	answer []byte // is to be sent back
}

// conn is one keep-alive connection, with at most one request on its way.
type conn struct {
	fd     int   // -1: not open
	index  int32 // in Client.conns
	to     unix.SockaddrInet4
	speaks protocol

	busy bool
	due  time.Duration // of the request on its way, since the run began
	sent time.Duration
	n    int // bytes read and not understood yet, at the front of buf
	buf  [maxReply]byte
}

// connect opens the connection anew and watches it.
func (c *Client) connect(cn *conn) error {
	cn.close()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	cn.fd, cn.n = fd, 0
	if err := unix.Connect(fd, &cn.to); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("TCP_NODELAY: %w", err)
	}
	if err := cn.write(cn.speaks.greeting()); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return fmt.Errorf("non-blocking: %w", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: cn.index}
	if err := unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

func (cn *conn) close() {
	if cn.fd >= 0 {
		_ = unix.Close(cn.fd)
		cn.fd = -1
	}
}

// write writes all of b. The socket's buffer is as good as empty, so the kernel
// takes it.
func (cn *conn) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := unix.Write(cn.fd, b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// receive reads what has arrived; status 0 means that the reply is not whole.
func (cn *conn) receive() (status int, err error) {
	n, err := unix.Read(cn.fd, cn.buf[cn.n:])
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return 0, nil
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.ErrUnexpectedEOF // closed, or the reply is larger than buf
	}
	cn.n += n
	return cn.understand()
}

// understand takes what has been read apart, and keeps what is not whole.
func (cn *conn) understand() (status int, err error) {
	used := 0
	for used < cn.n {
		p, err := cn.speaks.take(cn.buf[used:cn.n])
		if err != nil {
			return 0, err
		}
		if p.n == 0 {
			break
		}
		used += p.n
		if err := cn.write(p.answer); err != nil {
			return 0, err
		}
		switch {
		case p.status == 0:
		case status != 0:
			return 0, errors.New("more than one reply to one request")
		case !cn.busy:
			return 0, errors.New("a reply that nobody asked for")
		default:
			status = p.status
		}
		if p.last {
			cn.close()
			return status, nil
		}
	}
	cn.n = copy(cn.buf[:], cn.buf[used:cn.n])
	return status, nil
}
