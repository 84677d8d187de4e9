package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weirlimit/weir/internal/admin/cli"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service/secrets"
)

type hashCmd struct {
	Values     []string `arg:"" name:"value" help:"Values of the parts of the rule's key, in their order; for an IPv6 client its prefix. With --rules the name of the rule stands before them."`
	Rules      string   `help:"Rules file of the rule: an address becomes its prefix, and a path what the rule makes of it." placeholder:"FILE"`
	KeySecrets string   `help:"File of the secrets: print the key of a rule with hash: true, once for each of them." placeholder:"FILE"`
	cli.Format `embed:""`
}

// Run prints the key, or what replaces one that is long or hashed.
func (h *hashCmd) Run(stdout io.Writer) error {
	r, values, err := h.rule()
	if err != nil {
		return err
	}
	var keys []hashed
	switch {
	case h.KeySecrets != "":
		all, err := secrets.Read(h.KeySecrets)
		if err != nil {
			return err
		}
		for i := range all {
			keys = append(keys, hashed{string(r.HashedKeyOf(values, &all[i].Secret)), all[i].ID})
		}
	case r.Hash:
		return errors.New("rule " + r.Name + " hashes its keys; give --key-secrets")
	default:
		keys = []hashed{{Key: string(r.KeyOf(values))}}
	}
	var text strings.Builder
	for _, k := range keys {
		text.WriteString(strings.TrimSpace(k.Key+" "+k.Secret) + "\n")
	}
	return h.Print(stdout, keys, text.String())
}

// hashed is a key as it is counted.
type hashed struct {
	Key    string `json:"key"`
	Secret string `json:"secret,omitempty"` // names the secret that it is hashed under
}

// rule is the rule that the values are for; without --rules one that takes each as it is.
func (h *hashCmd) rule() (r *rule.Rule, values []string, err error) {
	if h.Rules == "" {
		r = &rule.Rule{}
		for range h.Values {
			r.Key = append(r.Key, rule.Part{{From: rule.FromHeader}})
		}
		return r, h.Values, nil
	}
	set, err := load(h.Rules)
	if err != nil {
		return nil, nil, err
	}
	i, found := set.Find(h.Values[0])
	if !found {
		return nil, nil, fmt.Errorf("rule %s is not in %s; write the name of a rule and then the values of its key", h.Values[0], h.Rules)
	}
	r, values = set.Rule(i), h.Values[1:]
	if parts := r.KeyParts(values); len(parts) != len(r.Key) {
		return nil, nil, fmt.Errorf("the key of rule %s has parts: %d, values here: %d", r.Name, len(r.Key), len(parts))
	}
	return r, values, nil
}
