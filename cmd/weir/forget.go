package main

import (
	"io"
	"net/http"
	"net/url"
)

type forgetCmd struct {
	Region string `arg:"" help:"Name of the region that is gone for good."`
	Admin  string `required:"" help:"Address of health, metrics and rules of an aggregator: any of those on one store." placeholder:"HOST:PORT"`
}

// Run declares the region dead at an aggregator.
func (f *forgetCmd) Run(stdout io.Writer) error {
	return ask(stdout, http.MethodPost, "http://"+f.Admin+"/regions/"+url.PathEscape(f.Region)+"/dead")
}
