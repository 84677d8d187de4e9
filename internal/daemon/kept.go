package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/statefile"
)

// keptCell is a cell of this process that outlives it in a file beside the state file, on whose lock it relies. What
// cannot be saved is stored all the same.
type keptCell struct {
	engine.Cell
	path string
	log  *slog.Logger

	mu     sync.Mutex
	failed bool // the last save
}

// newKeptCell makes one with what the process before has stored.
func newKeptCell(path string, c engine.Cell, log *slog.Logger) *keptCell {
	_, err := statefile.Read(path, func(record []byte) error {
		_, _, err := c.Swap(context.Background(), nil, record)
		return err
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		log.Error("cannot read the table of reserves; it is rebuilt from what regions state", "file", path, "error", err)
	}
	return &keptCell{Cell: c, path: path, log: log}
}

func (c *keptCell) Swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, now, err = c.Cell.Swap(ctx, old, next)
	if err == nil && next != nil && string(found) == string(old) {
		c.save(next)
	}
	return found, now, err
}

// save writes the file. A failure is logged when the save before succeeded.
func (c *keptCell) save(value []byte) {
	err := c.write(value)
	if err != nil && !c.failed {
		c.log.Error("cannot save the table of reserves; the file has the last save", "file", c.path, "error", err)
	}
	c.failed = err != nil
}

func (c *keptCell) write(value []byte) error {
	w, err := statefile.Create(c.path, statefile.Header{Saved: time.Now().UTC(), PID: os.Getpid()})
	if err != nil {
		return err
	}
	w.Put(value)
	_, err = w.Commit()
	return err
}
