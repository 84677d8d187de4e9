package compose

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"testing"

	"github.com/weirlimit/weir/test/kit/page"
)

// prometheus is the one number that a query has for an answer; none is an error.
func prometheus(t *testing.T, query string) (float64, error) {
	t.Helper()
	body, err := page.Read(t.Context(), &client, "http://"+prometheusAddr+"/api/v1/query?query="+url.QueryEscape(query))
	if err != nil {
		return 0, err
	}
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, err
	}
	if n := len(answer.Data.Result); n != 1 {
		return 0, fmt.Errorf("%s has %d answers", query, n)
	}
	return strconv.ParseFloat(fmt.Sprint(answer.Data.Result[0].Value[1]), 64)
}
