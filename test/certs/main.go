// Command certs makes certificates with which Weir can be tried with TLS: an authority, the
// aggregator, a replica of each region, and a PoP of each region. They last a day and are not
// for production: the authority's key is thrown away.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirlimit/weir/test/kit/pki"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: certs DIR REGION...")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "certs: %v\n", err)
		os.Exit(1)
	}
}

func write(dir string, regions []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	a, err := pki.NewAuthority()
	if err != nil {
		return err
	}
	errs := []error{
		os.WriteFile(filepath.Join(dir, "ca.pem"), a.PEM, 0o600),
		a.Write(dir, "global", "localhost", "127.0.0.1", "weir-global"),
	}
	for _, r := range regions {
		errs = append(errs,
			a.Write(dir, "region-"+r, "localhost", "127.0.0.1", "weir-regional", "weir://region/"+r),
			a.Write(dir, "pop-"+r, "weir://pop/"+r))
	}
	return errors.Join(errs...)
}
