package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/observe"
)

// TestWhyFindsTheCauseThreeLayersBelow has a deletion that is blocked by a ConfigMap three layers below.
func TestWhyFindsTheCauseThreeLayersBelow(t *testing.T) {
	l := newLayers(t)
	l.nest(t)
	t.Run("for people", func(t *testing.T) {
		code, out, errs := l.call(t, "why", "top")
		if code != exitNotReady || errs != "" {
			t.Errorf("exit code %d, %q", code, errs)
		}
		first, rest, _ := strings.Cut(strings.ReplaceAll(out, l.namespace, "NS"), "\n")
		if want := "ConfigMap NS/data is not gone: held by finalizer example.com/guard, added by ops"; first != want {
			t.Errorf("the first line is %q", first)
		}
		for _, want := range []string{"Layer NS/top Deleting", "\n      └─ ConfigMap NS/data Finalizer (for ", "What to do:\n  - ops set finalizer example.com/guard and must remove it"} {
			if !strings.Contains(rest, want) {
				t.Errorf("it does not print %q:\n%s", want, rest)
			}
		}
	})
	t.Run("for programs", func(t *testing.T) {
		for _, format := range []string{"json", "yaml"} {
			code, out, errs := l.call(t, "why", "top", "-o", format)
			raw, err := yaml.YAMLToJSON([]byte(out))
			var got observe.Explanation
			if err == nil {
				err = json.Unmarshal(raw, &got)
			}
			if err != nil || code != exitNotReady {
				t.Fatalf("exit code %d, %v, %q", code, err, errs)
			}
			if len(got.Chain) != 4 || got.Chain[3].Object.Name != "data" || got.Chain[3].Since == nil {
				t.Errorf("got %s", out)
			}
		}
	})
}

func TestWhyErrors(t *testing.T) {
	l := newLayers(t)
	cases := map[string]struct {
		arguments []string
		code      int
		says      string
	}{
		"an object that does not exist": {[]string{"nobody"}, exitFailed, "/nobody not found"},
		"no name":                       {nil, exitUsage, "the name is missing"},
		"another format":                {[]string{"x", "-o", "xml"}, exitUsage, "must be one of table, json, yaml"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			arguments := append([]string{"why", "layer." + l.kind.Group}, tc.arguments...)
			code, _, errs := call(t.Context(), append(arguments, "-n", l.namespace, "--kubeconfig", l.file)...)
			if code != tc.code || !strings.Contains(errs, tc.says) {
				t.Errorf("exit code %d: %s", code, errs)
			}
		})
	}
	t.Run("there is nothing to explain about a ready object", func(t *testing.T) {
		l.make(t, mapKind, "plain", "", "example.com/guard")
		code, out, errs := call(t.Context(), "why", "cm", "plain", "-n", l.namespace, "--kubeconfig", l.file)
		if code != exitDone || !strings.Contains(out, "/plain is ready\n") {
			t.Errorf("exit code %d: %s%s", code, out, errs)
		}
	})
}

func TestWhyExplainsFields(t *testing.T) {
	l := newLayers(t)
	l.make(t, mapKind, "plain", "", "example.com/guard")
	cases := map[string]struct {
		arguments []string
		code      int
		want      string
	}{
		"a field of an object of no instance": {[]string{"cm", "plain", "metadata.name"}, exitDone, "belongs to no instance"},
		"as KIND/NAME":                        {[]string{"cm/plain", "metadata.name"}, exitDone, `metadata.name of ConfigMap ` + l.namespace + `/plain is "plain"`},
		"as JSON":                             {[]string{"cm/plain", "metadata.name", "-o", "json"}, exitDone, `"value": "plain"`},
		"a field that the kind does not have": {[]string{"cm/plain", "metadata.nme"}, exitFailed, `there is no field metadata.nme in ConfigMap; did you mean "metadata.name"?`},
		"a field that is not set":             {[]string{"cm/plain", "data.nme"}, exitDone, "is not set"},
		"no path":                             {[]string{"cm/plain", "metadata..name"}, exitUsage, "is not the path of a field"},
		"an object that does not exist":       {[]string{"cm/nobody", "data"}, exitFailed, "/nobody not found"},
		"files without a field":               {[]string{"cm/plain", "-f", "."}, exitUsage, "why KIND NAME FIELD"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			arguments := append([]string{"why"}, tc.arguments...)
			code, out, errs := call(t.Context(), append(arguments, "-n", l.namespace, "--kubeconfig", l.file)...)
			if code != tc.code || !strings.Contains(out+errs, tc.want) {
				t.Errorf("exit code %d: %s%s", code, out, errs)
			}
		})
	}
}

// TestAFieldWithoutPermissions: an expression that reads what the user may not list has a value, although none is shown.
func TestAFieldWithoutPermissions(t *testing.T) {
	kubeconfig := forbiddenServer(t, map[string]string{
		"/api":    `{"kind":"APIVersions","versions":["v1"]}`,
		"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["list"]}]}`,
		"/apis/kro.run/v1/namespaces/team-a/shops/solo": `{"kind":"Shop","apiVersion":"kro.run/v1","metadata":{"name":"solo","namespace":"team-a","uid":"u",
			"labels":{"kro.run/resource-graph-definition-name":"shop","applyset.kubernetes.io/id":"x"},"annotations":{"applyset.kubernetes.io/contains-group-kinds":"ConfigMap"}},"status":{"note":"hello"}}`,
	})
	code, out, errs := call(t.Context(), "why", "shop", "solo", "status.note", "-n", "team-a", "--kubeconfig", kubeconfig)
	if code != exitDone || !strings.Contains(out, `status.note of Shop team-a/solo is "hello"`) || !strings.Contains(errs, "note: left out, because you are not allowed to list them: configmaps in namespace team-a") {
		t.Errorf("exit code %d: %s\n%s", code, out, errs)
	}
}
