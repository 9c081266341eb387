package cloudcontroltest

import (
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
)

// DocDB is the part of DocumentDB's API that the provider calls, in memory, as the HTTP client of an aws.Config. Names
// are unique, changes take time, and are refused meanwhile. It knows no account and no signature.
type DocDB struct {
	now      func() time.Time
	duration time.Duration

	mu        sync.Mutex
	resources map[string]*docDBResource
	fault     Fault
	calls     []string
}

// docDBResource is a cluster or an instance: its parameters as they were sent, and its tags.
type docDBResource struct {
	arn, state string
	until      time.Time
	fields     map[string]string
	tags       map[string]string
}

// NewDocDB returns an API whose changes take a duration on a clock.
func NewDocDB(now func() time.Time, duration time.Duration) *DocDB {
	return &DocDB{now: now, duration: duration, resources: map[string]*docDBResource{}}
}

// Inject makes the calls from now on fail: Refuse and Throttle without effect, LoseAnswer after it.
func (d *DocDB) Inject(f Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fault = f
}

// Calls returns the actions that were called, in their order.
func (d *DocDB) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.calls)
}

// Count returns how many clusters, or instances, there are.
func (d *DocDB) Count(kind string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle()
	for name := range d.resources {
		if strings.HasPrefix(name, kind+":") {
			n++
		}
	}
	return n
}

// Snapshot describes everything that exists.
func (d *DocDB) Snapshot() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle()
	out := ""
	for _, name := range slices.Sorted(maps.Keys(d.resources)) {
		r := d.resources[name]
		out += fmt.Sprintln(name, r.state, r.fields, r.tags)
	}
	return out
}

// settle ends the changes whose time is over.
func (d *DocDB) settle() {
	for name, r := range d.resources {
		switch {
		case r.until.After(d.now()):
		case r.state == "deleting":
			delete(d.resources, name)
		default:
			r.state = "available"
		}
	}
}

// Do answers a call of the query protocol.
func (d *DocDB) Do(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	d.serve(w, r)
	return w.Result(), nil
}

// Config returns the configuration of a client.
func (d *DocDB) Config() aws.Config {
	return aws.Config{
		Region: "eu-central-1", HTTPClient: d, Credentials: credentials.NewStaticCredentialsProvider("AKIA", "secret", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
}

func (d *DocDB) serve(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	action := r.PostForm.Get("Action")
	d.calls = append(d.calls, action)
	d.settle()
	w.Header().Set("Content-Type", "text/xml")
	switch {
	case d.fault.Refuse:
		docDBError(w, http.StatusServiceUnavailable, "ServiceUnavailable")
		return
	case d.fault.Throttle:
		docDBError(w, http.StatusBadRequest, "Throttling")
		return
	}
	result, code := d.call(action, r.PostForm)
	switch {
	case d.fault.LoseAnswer:
		docDBError(w, http.StatusInternalServerError, "InternalFailure")
	case code != "":
		docDBError(w, http.StatusBadRequest, code)
	default:
		fmt.Fprintf(w, "<%[1]sResponse><%[1]sResult>%[2]s</%[1]sResult></%[1]sResponse>", action, result)
	}
}

func docDBError(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, "<ErrorResponse><Error><Code>%s</Code><Message>refused</Message></Error></ErrorResponse>", code)
}

// call returns the content of the result, or the code of an error.
func (d *DocDB) call(action string, form url.Values) (result, code string) {
	kind := "instance"
	if strings.Contains(action, "Cluster") {
		kind = "cluster"
	}
	name := kind + ":" + form.Get(map[string]string{"cluster": "DBClusterIdentifier", "instance": "DBInstanceIdentifier"}[kind])
	switch r := d.resources[name]; action {
	case "CreateDBCluster", "CreateDBInstance":
		return "", d.create(kind, name, form)
	case "AddTagsToResource", "RemoveTagsFromResource", "ListTagsForResource":
		return d.tag(form)
	case "DescribeDBClusters", "DescribeDBInstances":
		if r == nil {
			return "", docDBNotFound[kind]
		}
		return r.describe(kind), ""
	case "ModifyDBCluster", "ModifyDBInstance", "DeleteDBCluster", "DeleteDBInstance":
		switch {
		case r == nil:
			return "", docDBNotFound[kind]
		case r.state != "available", strings.HasPrefix(action, "Delete") && d.hasInstances(kind, form):
			return "", docDBInvalidState[kind]
		}
		r.until = d.now().Add(d.duration)
		if r.state = "modifying"; strings.HasPrefix(action, "Delete") {
			r.state = "deleting"
			return "", ""
		}
		r.set(form)
		return "", ""
	}
	return "", "InvalidAction"
}

var (
	docDBNotFound     = map[string]string{"cluster": "DBClusterNotFoundFault", "instance": "DBInstanceNotFound"}
	docDBInvalidState = map[string]string{"cluster": "InvalidDBClusterStateFault", "instance": "InvalidDBInstanceState"}
)

func (d *DocDB) hasInstances(kind string, form url.Values) bool {
	for _, r := range d.resources {
		if kind == "cluster" && r.fields["DBInstanceIdentifier"] != "" && r.fields["DBClusterIdentifier"] == form.Get("DBClusterIdentifier") {
			return true
		}
	}
	return false
}

func (d *DocDB) create(kind, name string, form url.Values) (code string) {
	switch {
	case d.resources[name] != nil && kind == "cluster":
		return "DBClusterAlreadyExistsFault"
	case d.resources[name] != nil:
		return "DBInstanceAlreadyExists"
	}
	r := &docDBResource{
		arn: "arn:aws:rds:eu-central-1:123456789012:" + name, state: "creating", until: d.now().Add(d.duration), fields: map[string]string{}, tags: docDBTagsIn(form),
	}
	r.set(form)
	d.resources[name] = r
	return ""
}

// set keeps the parameters of a request, but those that are only about the request.
func (r *docDBResource) set(form url.Values) {
	for key := range form {
		if !strings.Contains(key, ".") && !slices.Contains([]string{"Action", "Version", "ApplyImmediately"}, key) {
			r.fields[key] = form.Get(key)
		}
	}
}

func docDBTagsIn(form url.Values) map[string]string {
	out := map[string]string{}
	for i := 1; form.Has(fmt.Sprintf("Tags.Tag.%d.Key", i)); i++ {
		out[form.Get(fmt.Sprintf("Tags.Tag.%d.Key", i))] = form.Get(fmt.Sprintf("Tags.Tag.%d.Value", i))
	}
	return out
}

func (d *DocDB) tag(form url.Values) (result, code string) {
	for _, r := range d.resources {
		if r.arn != form.Get("ResourceName") {
			continue
		}
		maps.Copy(r.tags, docDBTagsIn(form))
		for i := 1; form.Has(fmt.Sprintf("TagKeys.member.%d", i)); i++ {
			delete(r.tags, form.Get(fmt.Sprintf("TagKeys.member.%d", i)))
		}
		for _, key := range slices.Sorted(maps.Keys(r.tags)) {
			result += "<Tag>" + element("Key", key) + element("Value", r.tags[key]) + "</Tag>"
		}
		return "<TagList>" + result + "</TagList>", ""
	}
	return "", "DBInstanceNotFound"
}

// describe returns the list with the one resource. What was sent is returned by the same name, but the password.
func (r *docDBResource) describe(kind string) string {
	all := ""
	for _, key := range slices.Sorted(maps.Keys(r.fields)) {
		if key != "MasterUserPassword" {
			all += element(key, r.fields[key])
		}
	}
	if kind == "cluster" {
		all += element("DBClusterArn", r.arn) + element("Status", r.state)
		if r.state != "creating" {
			all += element("Endpoint", r.fields["DBClusterIdentifier"]+".example.org")
		}
		return "<DBClusters><DBCluster>" + all + "</DBCluster></DBClusters>"
	}
	return "<DBInstances><DBInstance>" + all + element("DBInstanceArn", r.arn) + element("DBInstanceStatus", r.state) + "</DBInstance></DBInstances>"
}

func element(name, value string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(value)) // a Builder does not fail
	return "<" + name + ">" + b.String() + "</" + name + ">"
}
