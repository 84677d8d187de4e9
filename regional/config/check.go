package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"time"
)

// Check names every field that is out of range, and the range. (The parser of
// flags would call a method Validate by itself, before the file has been read.)
func (c *Config) Check() error {
	return errors.Join(
		c.checkRules(),
		address("listen", c.Listen),
		address("admin_listen", c.AdminListen),
		between("replicas", c.Replicas, 1, 10_000),
		between("max_keys", c.MaxKeys, 1, 1_000_000_000),
		between("max_memory", c.MaxMemory, 1<<20, 1<<50),
		between("max_holders", c.MaxHolders, 1, 10_000_000),
		between("max_streams", c.MaxStreams, 1, 100_000),
		between("header_timeout", c.HeaderTimeout, 100*time.Millisecond, time.Minute),
		between("idle_timeout", c.IdleTimeout, time.Second, time.Hour),
		between("drain_wait", c.DrainWait, 0, 5*time.Minute),
		between("drain_timeout", c.DrainTimeout, 0, 5*time.Minute),
		oneOf("front", c.Front, "auto", "on", "off"),
		c.checkState(),
		c.RedisOf.check(c.Redis),
		c.checkRLS(),
		oneOf("log_format", c.LogFormat, "json", "text"),
		oneOf("log_level", c.LogLevel, "debug", "info", "warn", "error"),
	)
}

func (c *Config) checkRules() error {
	switch {
	case c.Rules == "" && c.RatelimitConfig == "":
		return errors.New("rules: is missing; give the path of a rules file, such as --rules rules.yaml, or --ratelimit-config")
	case c.Rules == "" && c.Descriptors != "":
		return errors.New("descriptors: needs rules to bind descriptors to; give --rules")
	}
	return nil
}

func (c *Config) checkState() error {
	for _, other := range []struct{ field, path string }{
		{"rules", c.Rules}, {"config", c.Config}, {"descriptors", c.Descriptors},
	} {
		named := c.State != "auto" && c.State != "off" && other.path != ""
		if named && filepath.Clean(c.State) == filepath.Clean(other.path) {
			return fmt.Errorf("state: %s is %s, which the counters would replace; name a file of its own", c.State, other.field)
		}
	}
	switch {
	case c.State == "":
		return errors.New("state: is empty; write auto, off or the path of a file")
	case len(c.Redis) > 0 && c.State != "auto" && c.State != "off":
		return fmt.Errorf("state: %q is for counters in memory, and these are in Redis; leave it out, or redis", c.State)
	case c.StateInterval != 0:
		return between("state_interval", c.StateInterval, 100*time.Millisecond, time.Hour)
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
	if dir, _, _ := strings.Cut(env("STATE_DIRECTORY"), ":"); dir != "" { // systemd.exec(5): several have colons between
		return filepath.Join(dir, "state")
	}
	return filepath.Join(".weir", "state")
}

func address(field, value string) error {
	if _, port, err := net.SplitHostPort(value); err != nil || port == "" {
		return fmt.Errorf("%s: %q must be host:port, such as 127.0.0.1:8080, or :8080 for every interface", field, value)
	}
	return nil
}

func between[T cmp.Ordered](field string, value, least, most T) error {
	if value < least || value > most {
		return fmt.Errorf("%s: %v must be %v to %v", field, value, least, most)
	}
	return nil
}

func oneOf(field, value string, allowed ...string) error {
	for _, a := range allowed {
		if value == a {
			return nil
		}
	}
	return fmt.Errorf("%s: %q must be one of %q", field, value, allowed)
}
