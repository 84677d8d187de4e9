package memory_test

import (
	"cmp"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
)

func TestConformance(t *testing.T) {
	enginetest.Run(t, enginetest.Subject{
		New: func(_ testing.TB, o enginetest.Options) engine.Store {
			return memory.New(memory.Config{MaxKeys: cmp.Or(o.MaxKeys, 100_000), MaxBytes: 1 << 30, Now: o.Now})
		},
	})
}

func TestCell(t *testing.T) {
	enginetest.RunCell(t, func(testing.TB) [2]engine.Cell {
		cell := memory.New(memory.Config{}).NewCell()
		return [2]engine.Cell{cell, cell}
	})
}
