package faults

import (
	"flag"
	"testing"
)

// TestMain lets four tests run at once, also on a machine of two cores: those that
// may run beside others mostly wait for their servers. Those under load run alone.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // a flag of the command line replaces it
	m.Run()
}
