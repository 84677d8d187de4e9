package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// healthTime bounds a health check: what does not answer within it is not healthy.
const healthTime = 3 * time.Second

// mostReasons bounds what is printed of an answer, in bytes.
const mostReasons = 4096

type healthcheckCmd struct {
	URL string `arg:"" help:"What to ask, such as http://127.0.0.1:8090/readyz."`
}

// Run asks once. Images without a shell and without curl use it as their health check.
func (h *healthcheckCmd) Run(stdout io.Writer) error {
	client := http.Client{Timeout: healthTime}
	answer, err := client.Get(h.URL)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostReasons))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", h.URL, answer.Status, strings.TrimSpace(string(text)))
	}
	_, err = stdout.Write(text)
	return err
}
