package daemon

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/settings"
)

// Input is a file that a program reads, and the field that has its path.
type Input struct{ Field, Path string }

// Check names every field that is out of range, and the range. inputs are files that the
// state file must not replace, beside those of c.
func (c *Config) Check(inputs ...Input) error {
	return errors.Join(
		settings.Address("listen", c.Listen),
		settings.Address("admin_listen", c.AdminListen),
		c.checkConsul(),
		c.checkRules(),
		settings.Between("replicas", c.Replicas, 1, 10_000),
		settings.Between("max_keys", c.MaxKeys, 1, 1_000_000_000),
		settings.Between("max_memory", c.MaxMemory, 1<<20, 1<<50),
		settings.Between("max_holders", c.MaxHolders, 1, 10_000_000),
		settings.Between("max_holders_per_address", c.MaxHoldersPerAddress, 1, 10_000_000),
		settings.Between("max_streams", c.MaxStreams, 1, 100_000),
		settings.Between("header_timeout", c.HeaderTimeout, 100*time.Millisecond, time.Minute),
		settings.Between("idle_timeout", c.IdleTimeout, time.Second, time.Hour),
		settings.Between("drain_wait", c.DrainWait, 0, 5*time.Minute),
		settings.Between("drain_timeout", c.DrainTimeout, 0, 5*time.Minute),
		settings.OneOf("front", c.Front, "auto", "on", "off"),
		c.checkState(append(inputs, Input{"rules", c.Rules}, Input{"config", c.File})),
		c.RedisOf.check(c.Redis),
		c.TLS.check(),
		c.checkOTLP(),
		settings.OneOf("log_format", c.LogFormat, "json", "text"),
		settings.OneOf("log_level", c.LogLevel, "debug", "info", "warn", "error"),
	)
}

func (c *Config) checkOTLP() error {
	u, err := url.Parse(c.OTLP)
	wrong := err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Port() == ""
	return settings.Refuse(c.OTLP != "" && wrong, "otlp: %q must be a URL with a port, such as http://127.0.0.1:4317", c.OTLP)
}

func (c *Config) checkState(inputs []Input) error {
	for _, input := range inputs {
		named := c.State != "auto" && c.State != "off" && input.Path != ""
		if named && filepath.Clean(c.State) == filepath.Clean(input.Path) {
			return fmt.Errorf("state: %s is %s, which the counters would replace; name a file of its own", c.State, input.Field)
		}
	}
	switch {
	case c.State == "":
		return errors.New("state: is empty; write auto, off or the path of a file")
	case len(c.Redis) > 0 && c.State != "auto" && c.State != "off":
		return fmt.Errorf("state: %q is for counters in memory, and these are in Redis; leave it out, or redis", c.State)
	case c.StateInterval != 0:
		return settings.Between("state_interval", c.StateInterval, 100*time.Millisecond, time.Hour)
	}
	return nil
}

// StateFile is the path of the state file; empty: there is none. env answers the value
// of an environment variable.
func (c *Config) StateFile(env func(string) string) string {
	switch {
	case len(c.Redis) > 0 || c.State == "off":
		return ""
	case c.State != "auto":
		return c.State
	}
	return stateDir(env, "state")
}

// stateDir is the path of a file that outlives the process.
func stateDir(env func(string) string, name string) string {
	if dir, _, _ := strings.Cut(env("STATE_DIRECTORY"), ":"); dir != "" { // systemd.exec(5): several have colons between
		return filepath.Join(dir, name)
	}
	return filepath.Join(".weir", name)
}
