package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/service/secrets"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// Each holder has its own directory. All but PoPs have one secret of keys. What lasts another day is kept, so that
// programs that run and programs that start have the same authority.
func TestEach(t *testing.T) {
	dir := t.TempDir()
	read := func() string {
		t.Helper()
		return string(fatal.Get(os.ReadFile(filepath.Join(dir, "pop-eu", "ca.pem")))(t))
	}
	again := func(life time.Duration) string {
		t.Helper()
		fatal.If(t, write(dir, []string{"eu", "us"}, life))
		return read()
	}
	keys := func(holder string) string {
		t.Helper()
		path := filepath.Join(dir, holder, "key-secrets")
		if _, err := secrets.Read(path); err != nil {
			t.Error(err)
		}
		text, _ := os.ReadFile(path)
		return string(text)
	}
	short := again(time.Hour)
	secret := keys("aggregator")
	long := again(48 * time.Hour)
	if keys("region-eu") != secret || keys("region-us") != secret || keys("aggregator") != secret {
		t.Error("holders have not the same secret of keys, or another one than before")
	}
	if short == long {
		t.Error("certificates that end within the day were kept")
	}
	if again(48*time.Hour) != long {
		t.Error("certificates for another day were not kept")
	}
	fatal.If(t, os.Remove(filepath.Join(dir, "region-us", "key.pem")))
	if again(48*time.Hour) == long {
		t.Error("the other certificates were kept when a key was missing")
	}
}
