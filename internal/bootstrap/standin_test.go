package bootstrap

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// cloud stands in for Secrets Manager and ElastiCache as the SDK calls them. It fails the test when a
// secret has a password that the user of the same region does not accept yet.
type cloud struct {
	t *testing.T

	mu      sync.Mutex
	secrets map[string]string   // by region and name
	users   map[string][]string // passwords by region and id
	groups  map[string][]string // users by region and id
	slow    bool                // the next change of a user is under way when its state is asked for
	busy    bool                // it is
	writes  int
	reject  int       // this write is rejected
	last    [3]string // the last write, and how it was answered: the SDK repeats it where the answer was lost
	down    string    // region that rejects all
}

func startCloud(t *testing.T) *cloud {
	c := &cloud{t: t, secrets: map[string]string{}, users: map[string][]string{}, groups: map[string][]string{}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	return c
}

func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, scope, _ := strings.Cut(r.Header.Get("Authorization"), "Credential=")
	region := strings.Split(scope, "/")[2]
	body, _ := io.ReadAll(r.Body)
	form, format := url.Values{}, `{"__type": %q, "message": %q}`
	_, action, isSecret := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if !isSecret {
		form, _ = url.ParseQuery(string(body))
		action, format = form.Get("Action"), "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>"
	}
	isWrite := !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get")
	again := isWrite && c.last[0] == region+string(body)
	if isWrite && !again {
		c.writes++
	}
	var fault, answer string
	switch {
	case again:
		fault, answer = c.last[1], c.last[2]
	case region == c.down:
		fault, answer = "AccessDeniedException", region+" is down"
	case isWrite && c.writes == c.reject:
		fault, answer = "AccessDeniedException", "no right to "+action
	case isSecret:
		fault, answer = c.secret(region, action, body)
	default:
		fault, answer = c.cache(region, action, form)
	}
	if isWrite {
		c.last = [...]string{region + string(body), fault, answer}
	}
	if fault != "" {
		w.WriteHeader(http.StatusBadRequest)
		answer = fmt.Sprintf(format, fault, answer)
	}
	_, _ = io.WriteString(w, answer)
}

// secret answers for Secrets Manager.
func (c *cloud) secret(region, action string, body []byte) (fault, answer string) {
	var in struct{ Name, SecretId, SecretString string }
	if err := json.Unmarshal(body, &in); err != nil {
		c.t.Error(err)
	}
	name := region + "/" + in.Name + in.SecretId
	_, found := c.secrets[name]
	if found && action == "CreateSecret" {
		return "ResourceExistsException", name
	} else if !found && action != "CreateSecret" {
		return "ResourceNotFoundException", name
	}
	if action != "GetSecretValue" {
		c.check(region, in.SecretString)
		c.secrets[name] = in.SecretString
	}
	text, _ := json.Marshal(map[string]string{"ARN": "arn:aws:secretsmanager:" + name, "SecretString": c.secrets[name]})
	return "", string(text)
}

func (c *cloud) check(region, secret string) {
	var files map[string]string
	if err := json.Unmarshal([]byte(secret), &files); err != nil {
		c.t.Errorf("the secret is not JSON: %v", err)
	}
	password := strings.TrimSpace(files["redis-password"])
	if all := slices.Concat(slices.Collect(maps.Values(c.users))...); password != "" && !slices.Contains(all, password) {
		c.t.Errorf("a secret in %s has a password that no user accepts", region)
	}
}

// cache answers for ElastiCache.
func (c *cloud) cache(region, action string, form url.Values) (fault, answer string) {
	list := func(name string) (all []string) {
		for i := 1; form.Has(fmt.Sprintf("%s.member.%d", name, i)); i++ {
			all = append(all, form.Get(fmt.Sprintf("%s.member.%d", name, i)))
		}
		return all
	}
	user, group := region+"/"+form.Get("UserId"), region+"/"+form.Get("UserGroupId")
	_, there := c.users[user]
	result := ""
	switch action {
	case "CreateUser", "ModifyUser":
		passwords := list("Passwords")
		if there == (action == "CreateUser") || len(passwords) < 1 || len(passwords) > 2 || form.Get("AccessString") != "on "+redisRights || c.busy {
			c.t.Errorf("%s of a user that is there: %v, busy %v: %v", action, there, c.busy, form)
		}
		c.users[user], c.busy, c.slow = passwords, c.slow, false
	case "DescribeUsers":
		if !there {
			return "UserNotFound", user
		}
		status := "active"
		if c.busy {
			c.busy, status = false, "modifying"
		}
		result = "<Users><member><Status>" + status + "</Status></member></Users>"
	case "DescribeUserGroups":
		users, there := c.groups[group]
		if !there {
			return "UserGroupNotFoundFault", group
		}
		result = "<UserGroups><member><UserIds><member>" + strings.Join(users, "</member><member>") + "</member></UserIds></member></UserGroups>"
	case "CreateUserGroup", "ModifyUserGroup":
		c.groups[group] = append(c.groups[group], list(map[string]string{"CreateUserGroup": "UserIds", "ModifyUserGroup": "UserIdsToAdd"}[action])...)
	default:
		c.t.Errorf("ElastiCache has no %s here", action)
	}
	return "", fmt.Sprintf("<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, result)
}
