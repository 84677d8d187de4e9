package cli

import (
	"errors"
	"strings"

	v1 "github.com/weirlimit/weir/api/admin/v1"
)

// arguments are what fields of calls are called on the command line; other fields are flags of the same name.
var arguments = map[string]string{
	"why": "--reason", "limits": "--limit", "headers": "--header", "claims": "--claim", "labels": "--label",
	"rule": "RULE", "key": "KEY", "counted": "KEY", "url": "URL", "document": "FILE",
}

// reasons are the words of the API for values that do not fit, and those of the command line.
var reasons = strings.NewReplacer(
	"expected number >= ", "must be at least ", "expected number <= ", "must be at most ",
	"expected length >= 1", "must not be empty", "expected length <= ", "must not have more characters than ",
	"expected array length <= ", "must not have more values than ", "expected object with at most ", "must not have more than ",
)

// asFlags is an error of the API about fields of a call, in terms of the command line. Other errors stay.
func asFlags(err error) error {
	p := new(v1.Problem)
	if !errors.As(err, &p) || p.Code != "" || len(p.Findings) == 0 {
		return err
	}
	var lines []string
	for i := range p.Findings {
		_, path, inside := strings.Cut(p.Findings[i].Path, ".")
		if !inside {
			return err
		}
		name := path[:len(path)-len(strings.TrimLeft(path, "abcdefghijklmnopqrstuvwxyz_"))]
		argument := arguments[name]
		if argument == "" {
			argument = "--" + strings.ReplaceAll(name, "_", "-")
		}
		lines = append(lines, argument+" "+reasons.Replace(p.Findings[i].Reason))
	}
	return errors.New(strings.Join(lines, "\n"))
}
