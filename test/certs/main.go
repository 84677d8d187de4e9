// Command certs makes certificates with which Weir can be tried with TLS: of the aggregator, a replica of each region,
// and a PoP of each region. Each holder has a directory of its own, NAME/{ca,cert,key}.pem, and all but PoPs
// NAME/key-secrets. What lasts another day is kept. The certificates last a day, or as long as -life states, and are not
// for production: the authority's key is thrown away.
package main

import (
	"crypto/rand"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/pki"
)

func main() {
	life := flag.Duration("life", 24*time.Hour, "how long the certificates last")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: certs [flags] DIR REGION...")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() < 2 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(flag.Arg(0), flag.Args()[1:], *life); err != nil {
		fmt.Fprintf(os.Stderr, "certs: %v\n", err)
		os.Exit(1)
	}
}

// holders are the names in each holder's certificate.
func holders(regions []string) map[string][]string {
	all := map[string][]string{"aggregator": {"localhost", "127.0.0.1", "weir-global"}}
	for _, r := range regions {
		all["region-"+r] = []string{"localhost", "127.0.0.1", "weir-regional", "weir://region/" + r}
		all["pop-"+r] = []string{"weir://pop/" + r}
	}
	return all
}

func write(dir string, regions []string, life time.Duration) error {
	all := holders(regions)
	if err := writeKeySecrets(dir, all); err != nil || lasting(dir, all, time.Now()) {
		return err
	}
	a := pki.NewLastingAuthority(life)
	var errs []error
	for name, names := range all {
		errs = append(errs, writeHolder(a, filepath.Join(dir, name), name, names))
	}
	return errors.Join(errs...)
}

// writeHolder writes what one holder may see.
func writeHolder(a *pki.Authority, dir, name string, names []string) error {
	cert, key := a.Issue(name, names...)
	return errors.Join(os.MkdirAll(dir, 0o700),
		os.WriteFile(filepath.Join(dir, "ca.pem"), a.PEM, 0o600),
		os.WriteFile(filepath.Join(dir, "cert.pem"), cert, 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), key, 0o600))
}

// writeKeySecrets gives the aggregator and the regions a secret under which keys are hashed, once.
func writeKeySecrets(dir string, all map[string][]string) error {
	line, err := os.ReadFile(filepath.Join(dir, "aggregator", "key-secrets"))
	if errors.Is(err, fs.ErrNotExist) {
		random := make([]byte, 16)
		_, err = rand.Read(random)
		line = fmt.Appendf(nil, "1 %x\n", random)
	}
	for name := range all {
		if !strings.HasPrefix(name, "pop-") {
			err = errors.Join(err, os.MkdirAll(filepath.Join(dir, name), 0o700), os.WriteFile(filepath.Join(dir, name, "key-secrets"), line, 0o600))
		}
	}
	return err
}

// lasting reports whether all holders have certificates for another day.
func lasting(dir string, all map[string][]string, now time.Time) bool {
	for name := range all {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name, "cert.pem"), filepath.Join(dir, name, "key.pem"))
		if err != nil || pair.Leaf.NotAfter.Before(now.Add(24*time.Hour)) {
			return false
		}
	}
	return true
}
