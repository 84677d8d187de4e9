// Package page reads pages over HTTP: readiness, metrics, profiles.
package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Get returns the status, headers and body of a page. Headers of the request come in
// pairs of name and value.
func Get(ctx context.Context, client *http.Client, url string, headers ...string) (*http.Response, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	return Do(client, req)
}

// Do sends a request, and returns the answer and all of its body.
func Do(client *http.Client, req *http.Request) (*http.Response, []byte, error) {
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	return resp, body, errors.Join(err, resp.Body.Close())
}

// Read returns the body of a page; a status other than 200 is an error.
func Read(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	resp, body, err := Get(ctx, client, url)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.200s", url, resp.Status, body)
	}
	return body, err
}
