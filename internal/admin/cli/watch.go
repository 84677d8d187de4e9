package cli

import (
	"context"
	"io"

	"github.com/weirlimit/weir/internal/admin/client"
)

func Wait(ctx context.Context, c *client.Client, revision uint64, out io.Writer) error { return nil }
