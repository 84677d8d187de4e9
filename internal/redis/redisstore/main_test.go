package redisstore

import (
	"flag"
	"testing"
)

// TestMain lets four tests run at once, also on a machine of two cores: they mostly wait for their servers.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // a flag of the command line replaces it
	m.Run()
}
