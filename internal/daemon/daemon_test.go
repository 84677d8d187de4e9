package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
)

var (
	quiet    = slog.New(slog.DiscardHandler)
	ofRegion = Program{Name: "weir-test", AggregatorCalls: &AggregatorCalls{Region: "eu"}}
)

// testConfig has free ports, no state file and no rules.
func testConfig() *Config {
	return &Config{
		Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0", Replicas: 1, State: "off", LeaseCache: "off",
		MaxKeys: 10, MaxMemory: 64 << 20, MaxHolders: 10, MaxHoldersPerAddress: 10, MaxStreams: 10, HeaderTimeout: time.Minute, IdleTimeout: time.Minute,
		DrainTimeout: 5 * time.Second, // a check of Consul may be in flight
	}
}

// runBeside runs a tier beside the test, until its end.
func runBeside(t *testing.T, cfg *Config, p Program, log *slog.Logger) *Tier {
	t.Helper()
	made := fatal.Get(New(cfg, p, log))(t)
	ended := make(chan error, 1)
	ctx, end := context.WithCancel(t.Context())
	go func() { ended <- made.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return made
}

// A tier is not made without its rules file, or its file of tokens.
func TestMissingFiles(t *testing.T) {
	for _, name := range []string{"rules.yaml", "tokens.yaml"} {
		cfg := testConfig()
		if path := filepath.Join(t.TempDir(), name); name == "rules.yaml" {
			cfg.Rules = path
		} else {
			cfg.Admin.Tokens = path
		}
		if _, err := New(cfg, Program{Name: "test"}, quiet); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want that %s does not exist", err, name)
		}
	}
}
