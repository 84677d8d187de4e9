package memory_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
)

func TestCell(t *testing.T) {
	enginetest.RunCell(t, func(testing.TB) [2]engine.Cell {
		cell := memory.New(memory.Config{}).NewCell()
		return [2]engine.Cell{cell, cell}
	})
}
