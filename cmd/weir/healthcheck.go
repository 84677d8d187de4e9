package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// askTime bounds an answer of a program: what does not answer within it is not healthy.
const askTime = 5 * time.Second

// mostPrinted bounds what is printed of an answer, in bytes.
const mostPrinted = 4096

type healthcheckCmd struct {
	URL string `arg:"" help:"What to ask, such as http://127.0.0.1:8090/readyz."`
}

// Run asks once. Images without a shell and without curl use it as their health check.
func (h *healthcheckCmd) Run(stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostPrinted))
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", h.URL, answer.Status, strings.TrimSpace(string(text)))
	}
	_, err = stdout.Write(text)
	return err
}
