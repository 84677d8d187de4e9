package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// forgetTime bounds how long an aggregator takes to forget a region.
const forgetTime = 5 * time.Second

type forgetCmd struct {
	Region string `arg:"" help:"Name of the region that is gone for good."`
	Admin  string `required:"" help:"Address of health, metrics and rules of an aggregator: any of those on one store." placeholder:"HOST:PORT"`
}

// Run declares the region dead at an aggregator.
func (f *forgetCmd) Run(stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), forgetTime)
	defer cancel()
	where := "http://" + f.Admin + "/regions/" + url.PathEscape(f.Region) + "/dead"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, where, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostReasons))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", where, answer.Status, strings.TrimSpace(string(text)))
	}
	_, err = stdout.Write(text)
	return err
}
