package composite

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	v1 "github.com/espalier-dev/espalier/api/apiextensions/v1"
	"github.com/espalier-dev/espalier/internal/composition/pipeline/structs"
	"github.com/espalier-dev/espalier/internal/diag"
	engine "github.com/espalier-dev/espalier/internal/instance"
	"github.com/espalier-dev/espalier/internal/instance/plan"
	fnv1 "github.com/espalier-dev/espalier/sdk/function/proto/v1"
)

func TestValuesOfSecretsAreFoundInTextsAndObjects(t *testing.T) {
	var v secretValues
	v.add(map[string][]byte{
		"password": []byte("hunter2!"), "port": []byte("5432"), "key": []byte("-----BEGIN\nMIIEowIBAAKCAQ\n-----END"),
		"credentials": []byte(`{"user": "x", "nested": [{"token": "t0psecret"}]}`),
	})
	v.addObject(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "data": map[string]any{"a": "Y2FuYXJ5ISE="}}})
	v.addObject(&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"a": "cHVibGlj"}}})
	v.add(map[string][]byte{"white space": []byte("\n\n\n\n\n\n\n\n")})
	cases := map[string]struct {
		text string
		want string
	}{
		"a value":                           {`no "hunter2!" here`, `no "` + redactedValue + `" here`},
		"its base64":                        {"aHVudGVyMiE=", redactedValue},
		"a line of a key":                   {"invalid MIIEowIBAAKCAQ", "invalid " + redactedValue},
		"a string of a document":            {"token t0psecret", "token " + redactedValue},
		"the data of a required Secret":     {"canary!!", redactedValue},
		"a value that is too short":         {"port 5432", "port 5432"},
		"the data of what is not a Secret":  {"public", "public"},
		"a text without any of the values.": {"fine", "fine"},
		"white space":                       {"it is fine", "it is fine"},
		"after the same first bytes":        {"hunter hunter2! hunter2?", "hunter " + redactedValue + " hunter2?"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := v.redact(tc.text); got != tc.want {
				t.Errorf("want %q, got %q", tc.want, got)
			}
			found, inKeys := v.search().areIn(map[string]any{"spec": []any{map[string]any{"a": tc.text, "n": int64(1)}}})
			if found != strings.Contains(tc.want, redactedValue) || inKeys {
				t.Errorf("in an object: %t, in its keys: %t", found, inKeys)
			}
			if _, inKeys := v.search().areIn(map[string]any{tc.text: "a"}); inKeys != found {
				t.Errorf("as a key: %t", inKeys)
			}
		})
	}
}

func TestAReasonStaysOneWord(t *testing.T) {
	var v secretValues
	v.add(map[string][]byte{"password": []byte("hunter22")})
	for reason, want := range map[string]string{"NoRegion": "NoRegion", "hunter22": "Redacted", "Not_hunter22": "Redacted", "": ""} {
		if got := v.redactReason(reason); got != want {
			t.Errorf("%s: want %q, got %q", reason, want, got)
		}
	}
}

func TestValuesOfSecretsAreFoundHoweverMessagesQuoteThem(t *testing.T) {
	const value = "hunter\x1b\"<2>\tü\ufeff!"
	var v secretValues
	v.add(map[string][]byte{"password": []byte(value), "long": []byte(strings.Repeat("0123456789", 1000))})
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	const long = "0123456789"
	cases := map[string]struct{ text, want string }{
		"as it is":                    {value, redactedValue},
		"quoted":                      {fmt.Sprintf("%q", value), `"` + redactedValue + `"`},
		"quoted as ASCII":             {fmt.Sprintf("%+q", value), `"` + redactedValue + `"`},
		"as JSON":                     {string(raw), `"` + redactedValue + `"`},
		"printable":                   {diag.Printable(value), redactedValue},
		"at the end of a cut text":    {diag.Truncate("used "+strings.Repeat(long, 1000), 100), "used " + redactedValue + "…"},
		"on both sides of a cut":      {diag.TruncateMiddle("used "+strings.Repeat(long, 1000)+" again", 100), "used " + redactedValue + "…" + redactedValue + " again"},
		"escaped and cut":             {diag.Truncate("used "+value, 16), "used " + redactedValue + "…"},
		"an ellipsis without a value": {"loading… done", "loading… done"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := v.redact(tc.text); got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.text, tc.want, got)
			}
		})
	}
}

func TestMoreValuesThanAreSearchedForMakeAllTextsAndObjectsSecret(t *testing.T) {
	var v secretValues
	data := map[string][]byte{}
	for i := range maxSecretValues {
		data[fmt.Sprint(i)] = fmt.Appendf(nil, "password-%d", i)
	}
	v.add(data)
	if got := v.redact("fine"); got != redactedText {
		t.Errorf("a text: %q", got)
	}
	if found, inKeys := v.search().areIn(map[string]any{"a": "b"}); !found || !inKeys {
		t.Errorf("an object: %t, its keys: %t", found, inKeys)
	}
	var later secretValues
	if later.merge(v); later.redact("fine") != redactedText {
		t.Error("the next run searches for a part of the values")
	}
}

func TestObjectsThatAreTooLargeToSearchCountAsSecret(t *testing.T) {
	var v secretValues
	data := map[string][]byte{}
	for i := range 200 {
		data[fmt.Sprint(i)] = fmt.Appendf(nil, "password-%d", i)
	}
	v.add(data)
	large := map[string]any{"a": strings.Repeat("fine ", 100_000)} // half a megabyte
	search := v.search()
	if found, inKeys := search.areIn(large); found || inKeys {
		t.Errorf("one: %t, %t", found, inKeys)
	}
	if found, inKeys := search.areIn(map[string]any{"b": large}); !found || !inKeys {
		t.Errorf("and another one: %t, %t", found, inKeys)
	}
}

func TestMergedValuesChangeNoOthers(t *testing.T) {
	var current, earlier secretValues
	current.add(map[string][]byte{"a": []byte("short-1"), "b": []byte("short-2"), "c": []byte("short-3")})
	earlier.add(map[string][]byte{"a": []byte("a much longer value")})
	current.values = slices.Grow(current.values, 10)
	given, want := current, slices.Clone(current.values)
	current.merge(earlier)
	if !slices.Equal(given.values, want) {
		t.Errorf("want %q, got %q", want, given.values)
	}
}

// leakingFunction repeats its credentials in all that it returns.
type leakingFunction struct{ fatal bool }

func (f *leakingFunction) Run(_ context.Context, _ string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	password := string(request.GetCredentials()["api"].GetCredentialData().GetData()["password"])
	object, err := structs.ToStruct(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"url": "https://user:" + password + "@host"}})
	out := &fnv1.RunFunctionResponse{
		Desired:    &fnv1.State{Resources: map[string]*fnv1.Resource{"store": {Resource: object}}},
		Results:    []*fnv1.Result{{Severity: fnv1.Severity_SEVERITY_WARNING, Message: "used " + password, Reason: &password}},
		Conditions: []*fnv1.Condition{{Type: "Used", Status: fnv1.Status_STATUS_CONDITION_TRUE, Reason: password, Message: &password}},
	}
	if f.fatal {
		out.Results = append(out.Results, &fnv1.Result{Severity: fnv1.Severity_SEVERITY_FATAL, Message: "cannot use " + password})
	}
	return out, err
}

func TestWhatFunctionsReportOfTheirCredentialsIsRedacted(t *testing.T) {
	const password = "canary-0815"
	secret := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "a", "name": "api"},
		"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(password))},
	}}
	c := composer(nil)
	function := &leakingFunction{}
	c.Runner = function
	c.Revisions[0].Spec.Pipeline[0].Credentials = []v1.FunctionCredentials{{Name: "api", Source: v1.CredentialsSecret, SecretRef: &v1.SecretReference{Namespace: "a", Name: "api"}}}
	cluster := contents{{Kind: secretKind, Namespace: "a", Name: "api"}: {Object: secret}}
	instance := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "App", "metadata": map[string]any{"namespace": "a", "name": "x", "uid": "1"}}}
	for _, fatal := range []bool{false, true} {
		function.fatal = fatal
		desired, err := engine.ComposeReading(t.Context(), c, plan.Facts{Instance: instance}, cluster.read)
		if err != nil || len(desired.Nodes) != 1 || !desired.Nodes[0].Sensitive || len(desired.Results) == 0 {
			t.Fatalf("fatal: %t: %v, %+v", fatal, err, desired)
		}
		if text := fmt.Sprint(desired.Results, desired.Conditions, desired.Problem, desired.Failure); strings.Contains(text, password) {
			t.Errorf("fatal: %t: %s", fatal, text)
		}
	}
	clear(cluster) // the former desired state stays
	for range 2 {
		desired, _ := engine.ComposeReading(t.Context(), c, plan.Facts{Instance: instance}, cluster.read)
		if len(desired.Nodes) != 1 || !desired.Nodes[0].Sensitive {
			t.Errorf("without the Secret: %+v", desired.Nodes)
		}
	}
}

// manyResources is a function that desires that many resources, with its credentials.
type manyResources struct{ number int }

func (f *manyResources) Run(_ context.Context, _ string, request *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	password := string(request.GetCredentials()["api"].GetCredentialData().GetData()["password"])
	resources := map[string]*fnv1.Resource{}
	for i := range f.number {
		o, err := structs.ToStruct(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": fmt.Sprint("c-", i)}, "data": map[string]any{"password": password}})
		if err != nil {
			return nil, err
		}
		resources[fmt.Sprint(i)] = &fnv1.Resource{Resource: o}
	}
	return &fnv1.RunFunctionResponse{Desired: &fnv1.State{Resources: resources}}, nil
}

func TestTheSecretsOfAFormerDesiredStateAreKnownForAsLongAsItStays(t *testing.T) {
	secret := func(password string) contents {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "a", "name": "api"},
			"data": map[string]any{"password": base64.StdEncoding.EncodeToString([]byte(password))},
		}}
		return contents{{Kind: secretKind, Namespace: "a", Name: "api"}: {Object: o}}
	}
	c, function := composer(nil), &manyResources{}
	c.Runner = function
	c.Revisions[0].Spec.Pipeline[0].Credentials = []v1.FunctionCredentials{{Name: "api", Source: v1.CredentialsSecret, SecretRef: &v1.SecretReference{Namespace: "a", Name: "api"}}}
	facts := plan.Facts{Instance: instanceOf(), Limits: plan.Limits{Objects: 2}}
	for i, run := range []struct {
		password  string
		resources int
		problem   plan.Reason
	}{{"canary-0815", 1, ""}, {"rotated-4711", 3, plan.LimitExceeded}, {"rotated-4711", 3, plan.LimitExceeded}} {
		function.number = run.resources
		desired, err := engine.ComposeReading(t.Context(), c, facts, secret(run.password).read)
		if err != nil || len(desired.Nodes) != 1 || desired.Problem.Reason != run.problem {
			t.Fatalf("run %d: %v, %+v", i, err, desired)
		}
		if !desired.Nodes[0].Sensitive {
			t.Errorf("run %d: the node has the first password, and is not sensitive", i)
		}
	}
}
