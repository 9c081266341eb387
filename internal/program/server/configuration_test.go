package server

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestProblemsOfAConfiguration(t *testing.T) {
	const header = "apiVersion: config.espalier.dev/v1alpha1\nkind: ControllerConfiguration\n"
	for name, tc := range map[string]struct {
		reason, text string
		want         []string
	}{
		"the header alone":  {"all fields have defaults", header, nil},
		"another version":   {"its fields may mean something else", "apiVersion: config.espalier.dev/v2\nkind: ControllerConfiguration\n", []string{"apiVersion: Invalid value: \"config.espalier.dev/v2\": must be config.espalier.dev/v1alpha1"}},
		"an empty file":     {"it does not say what it is", "", []string{"apiVersion: Invalid value: \"\": must be config.espalier.dev/v1alpha1", "kind: Invalid value: \"\": must be ControllerConfiguration"}},
		"no YAML":           {"", "{", []string{"error converting YAML to JSON"}},
		"a field twice":     {"which one is meant is unknown", header + "poll: 1m\npoll: 2m\n", []string{"poll"}},
		"the limits of run": {"they are fields like others", header + "instanceLimits: {objects: 10}\nwatchLimits: {total: 5}\n", nil},
		"all problems at once": {
			"a user corrects them together", header + "unknown: 1\nworkers: many\npoll: 5\nui: {port: 1}\nmetrics: true\ndialects: [kro]\nrequestsInFlight: 0\nsecretOutputs: Show\n" +
				"watchLimits: {total: 0}\nleaderElection: {leaseDuration: 1ms}\nlog: {format: xml}\nwatchNamespaces: [A_B]\nwatchLabelSelector: '='\nresourceGroups: {maxKinds: -1}\n",
			[]string{
				"unknown: Forbidden: unknown field", `workers: Invalid value: "many": must be an integer`, "poll: Invalid value: 5: must be a duration such as 15s",
				"ui.port: Forbidden: unknown field", "metrics: Invalid value: true: must be a map", `dialects[0]: Unsupported value: "kro"`,
				"requestsInFlight: Invalid value: 0: must be at least 1", `secretOutputs: Invalid value: "Show": must be Refuse or Warn`,
				"watchLimits.total: Invalid value: 0", "leaderElection.leaseDuration: Invalid value: \"1ms\"", `log.format: Invalid value: "xml"`,
				"watchNamespaces: Invalid value", "watchLabelSelector: Invalid value", "resourceGroups.maxKinds: Invalid value: -1",
			},
		},
		"a webhook that is not reached": {"", header + "webhook: {bindAddress: ':1'}\n", []string{"webhook.service: Required value: set either service or url"}},
		"a webhook without an address":  {"it would have no effect", header + "webhook: {clientCA: ca.crt}\n", []string{"webhook.bindAddress: Required value"}},
		"names without an authority":    {"a name alone proves nothing", header + "webhook: {clientNames: [a]}\n", []string{"webhook.clientCA: Required value"}},
		"an invalid Service":            {"", header + "webhook: {bindAddress: ':1', service: 'ns/name:0'}\n", []string{"webhook.service: Invalid value"}},
		"a page":                        {"", header + "ui: {bindAddress: localhost}\n", []string{"ui.bindAddress: Invalid value"}},
		"a certificate without a page":  {"", header + "ui: {certPath: /c}\n", []string{"ui.bindAddress: Required value"}},
		"functions": {"", header + "functions: {certPath: /c, certificatesSecret: name, preferBuiltIn: maybe}\n", []string{
			"functions.certificatesSecret: Invalid value", "functions.certificatesSecret: Forbidden", "functions.preferBuiltIn: Unsupported value"}},
		"traces": {"", header + "tracing: {endpoint: 'ftp://c', protocol: http/json, samplingRatio: 1.5}\n", []string{
			"tracing.endpoint: Invalid value: must be a URL", "tracing.protocol: Unsupported value", "tracing.samplingRatio: Invalid value: 1.5: must be from 0 to 1"}},
		"packages of a part": {"another installation would install them too", header + "packages: {enabled: true}\nwatchNamespaces: [a]\n", []string{"packages.enabled: Forbidden"}},
		"another runtime":    {"packages would not run", header + "packages: {runtime: {provider: Pod}}\n", []string{`packages.runtime.provider: Unsupported value: "Pod"`}},
		"a password":         {"others can read it", header + "tracing: {endpoint: 'https://me:hunter2@c'}\n", []string{"must have no user or password"}},
		"an invalid address": {"", header + "tracing: {endpoint: 'https://me:hunter2@c%'}\n", []string{"must be a URL"}},
	} {
		t.Run(name, func(t *testing.T) {
			c, problems, err := ParseConfiguration([]byte(tc.text), DefaultConfiguration())
			if err == nil {
				err = append(problems, c.Validate()...).ToAggregate()
			}
			if (err == nil) != (tc.want == nil) {
				t.Fatalf("%s: got %v", tc.reason, err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: %q is not in %v", tc.reason, part, err)
				}
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("a password is printed: %v", err)
			}
		})
	}
}

// TestAListReplacesTheDefault checks that what a file leaves out stays, and that a list is not merged with that of the defaults.
func TestAListReplacesTheDefault(t *testing.T) {
	defaults := DefaultConfiguration()
	c, problems, err := ParseConfiguration([]byte("{resourceGroups: {apiGroups: ['*']}, tracing: {samplingRatio: 0.5}, log: null}"), defaults)
	if len(problems) > 0 || err != nil {
		t.Fatal(problems, err)
	}
	ratio := 0.5
	want := DefaultConfiguration()
	want.TypeMeta, want.ResourceGroups.APIGroups, want.Tracing.SamplingRatio = metav1.TypeMeta{}, []string{"*"}, &ratio
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(DefaultConfiguration(), defaults); diff != "" {
		t.Errorf("the defaults have changed:\n%s", diff)
	}
}

// TestTheReferenceHasAllFields compares docs/reference/configuration.md with the fields and their defaults.
func TestTheReferenceHasAllFields(t *testing.T) {
	want, got := map[string]string{}, map[string]string{}
	c := DefaultConfiguration()
	collect(t, "", reflect.ValueOf(&c).Elem(), want)
	delete(want, "apiVersion")
	delete(want, "kind")
	page, err := os.ReadFile("../../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(page), "```yaml configuration\n")
	example, _, _ = strings.Cut(example, "```")
	shown, problems, err := ParseConfiguration([]byte(example), c)
	if err != nil || len(problems) > 0 || len(shown.Validate()) > 0 || shown.InstanceLimits.Objects != 10_000 {
		t.Errorf("the example: %v, %v, %v", err, problems, shown.Validate())
	}
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, " | "); len(cells) > 2 && strings.HasPrefix(line, "| `") {
			got[strings.Trim(cells[0], "| `")] = strings.Trim(cells[1], "`")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-fields +page):\n%s", diff)
	}
	if len(want) < 40 {
		t.Errorf("found %d fields: %q", len(want), slices.Sorted(maps.Keys(want)))
	}
}

// collect adds the fields of a struct, with their values in JSON.
func collect(t *testing.T, path string, v reflect.Value, into map[string]string) {
	if _, isLeaf := v.Addr().Interface().(json.Unmarshaler); v.Kind() != reflect.Struct || isLeaf {
		text, err := json.Marshal(v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		into[path] = strings.Trim(strings.Replace(string(text), "null", "", 1), `"`)
		return
	}
	fields := map[string]reflect.Value{}
	fieldsOf(v, fields)
	for name, value := range fields {
		collect(t, strings.TrimPrefix(path+"."+name, "."), value, into)
	}
}
