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
	slow    int                 // a change of a user is under way for so many questions
	busy    int                 // so many are left
	writes  int
	refuse  int    // this write is refused
	down    string // region that refuses all
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
	target, form := r.Header.Get("X-Amz-Target"), url.Values{}
	if target == "" {
		form, _ = url.ParseQuery(string(body))
		target = form.Get("Action")
	}
	if region == c.down {
		fail(w, form, "AccessDeniedException", region+" is down")
		return
	}
	if !strings.Contains(target, "Describe") && !strings.Contains(target, "Get") {
		if c.writes++; c.writes == c.refuse {
			fail(w, form, "AccessDeniedException", "no right to "+target)
			return
		}
	}
	if len(form) > 0 {
		c.cache(w, region, form)
		return
	}
	c.secret(w, region, strings.TrimPrefix(target, "secretsmanager."), body)
}

func fail(w http.ResponseWriter, form url.Values, code, message string) {
	w.WriteHeader(http.StatusBadRequest)
	if len(form) > 0 {
		fmt.Fprintf(w, "<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>", code, message)
		return
	}
	fmt.Fprintf(w, `{"__type": %q, "message": %q}`, code, message)
}

// secret answers Secrets Manager.
func (c *cloud) secret(w http.ResponseWriter, region, action string, body []byte) {
	var in struct{ Name, SecretId, SecretString string }
	if err := json.Unmarshal(body, &in); err != nil {
		c.t.Error(err)
	}
	name := region + "/" + in.Name + in.SecretId
	_, found := c.secrets[name]
	switch {
	case action == "CreateSecret" && found:
		fail(w, nil, "ResourceExistsException", name)
		return
	case action != "CreateSecret" && !found:
		fail(w, nil, "ResourceNotFoundException", name)
		return
	case action != "GetSecretValue":
		c.check(region, in.SecretString)
		c.secrets[name] = in.SecretString
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"ARN": "arn:aws:secretsmanager:" + name, "SecretString": c.secrets[name]})
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

// cache answers ElastiCache.
func (c *cloud) cache(w http.ResponseWriter, region string, form url.Values) {
	list := func(name string) (all []string) {
		for i := 1; form.Has(fmt.Sprintf("%s.member.%d", name, i)); i++ {
			all = append(all, form.Get(fmt.Sprintf("%s.member.%d", name, i)))
		}
		return all
	}
	action := form.Get("Action")
	user, group := region+"/"+form.Get("UserId"), region+"/"+form.Get("UserGroupId")
	_, there := c.users[user]
	result := ""
	switch action {
	case "CreateUser", "ModifyUser":
		passwords := list("Passwords")
		if there == (action == "CreateUser") || len(passwords) < 1 || len(passwords) > 2 || form.Get("AccessString") != "on "+redisRights || c.busy > 0 {
			c.t.Errorf("%s of a user that is there: %v, busy %d: %v", action, there, c.busy, form)
		}
		c.users[user], c.busy = passwords, c.slow
	case "DescribeUsers":
		if !there {
			fail(w, form, "UserNotFound", user)
			return
		}
		status := "active"
		if c.busy > 0 {
			c.busy, status = c.busy-1, "modifying"
		}
		result = "<Users><member><Status>" + status + "</Status></member></Users>"
	case "DescribeUserGroups":
		users, there := c.groups[group]
		if !there {
			fail(w, form, "UserGroupNotFoundFault", group)
			return
		}
		result = "<UserGroups><member><UserIds><member>" + strings.Join(users, "</member><member>") + "</member></UserIds></member></UserGroups>"
	case "CreateUserGroup":
		c.groups[group] = list("UserIds")
	case "ModifyUserGroup":
		c.groups[group] = append(c.groups[group], list("UserIdsToAdd")...)
	default:
		c.t.Errorf("ElastiCache has no %s here", action)
	}
	fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, result)
}
