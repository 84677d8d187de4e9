package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
)

// Events calls do with each event of a stream (server-sent events), until ctx ends or do returns an error, which is
// returned; that the stream ends is an error, too. do must not keep data.
func (c *Client) Events(ctx context.Context, path string, do func(event string, data []byte) error) error {
	answer, err := c.Send(ctx, Call{Path: path})
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxAnswer)
	for event := ""; lines.Scan(); {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(": "))
		switch string(name) {
		case "event":
			event = string(value)
		case "data": // one line each
			if err := do(event, value); err != nil {
				return err
			}
		}
	}
	if err = lines.Err(); err == nil {
		err = io.ErrUnexpectedEOF
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s has ended the stream: %w", c.at.Name, err)
}
