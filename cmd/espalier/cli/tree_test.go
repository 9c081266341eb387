package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/testkit"
)

// nested is an instance in an instance, as their metadata tell it: any object
// can be one.
func nested(namespace string) string {
	object := func(kind, name, labels, annotations string) string {
		return fmt.Sprintf("---\napiVersion: v1\nkind: %s\nmetadata:\n  name: %s\n  namespace: %s\n  labels: {%s}\n  annotations: {%s}\n",
			kind, name, namespace, labels, annotations)
	}
	return object("ConfigMap", "top", "applyset.kubernetes.io/id: one-"+namespace,
		`applyset.kubernetes.io/contains-group-kinds: "ConfigMap,Secret,Nothing.nowhere.example.com"`) +
		object("ConfigMap", "middle", "applyset.kubernetes.io/part-of: one-"+namespace+", applyset.kubernetes.io/id: two-"+namespace+", kro.run/node-id: middle",
			`applyset.kubernetes.io/contains-group-kinds: "Secret", internal.kro.run/apply-order: "1"`) +
		object("Secret", "last", "applyset.kubernetes.io/part-of: one-"+namespace+", kro.run/node-id: last", `internal.kro.run/apply-order: "2"`) +
		object("Secret", "low", "applyset.kubernetes.io/part-of: two-"+namespace+", kro.run/node-id: low", `internal.kro.run/apply-order: "1"`) +
		object("Secret", "stranger", "", "")
}

// TestATreeWithoutPermissions shows what a user may list, and names the rest: a tenant may read an instance, but not all of its children.
func TestATreeWithoutPermissions(t *testing.T) {
	config := testkit.Server(t)
	namespace := testkit.Namespace(t, config)
	testkit.NewCluster(t, config).Apply(t, nested(namespace)+strings.ReplaceAll(`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader, namespace: NS}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get, list, watch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader, namespace: NS}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: reader-NS}]
`, "NS", namespace))
	reader := rest.CopyConfig(config)
	reader.Impersonate.UserName = "reader-" + namespace
	file := testkit.Kubeconfig(t, reader)
	testkit.PollFor(t, testkit.Timeout, "the role is in effect", func() bool {
		code, _, _ := call(t.Context(), "tree", "cm", "middle", "-n", namespace, "--kubeconfig", file)
		return code == exitDone
	})
	for _, command := range []string{"tree", "why", "blockers"} {
		code, out, errs := call(t.Context(), command, "cm", "top", "-n", namespace, "--kubeconfig", file)
		if code != 0 && code != exitNotReady || !strings.Contains(errs, "note: left out, because you are not allowed to list them: secrets in namespace "+namespace) || !strings.Contains(out, "top") {
			t.Errorf("%s: exit code %d: %s%s", command, code, out, errs)
		}
	}
}

var age = regexp.MustCompile(`\b\d+s\b`)

func TestTree(t *testing.T) {
	config := testkit.Server(t)
	file, namespace := testkit.Kubeconfig(t, config), testkit.Namespace(t, config)
	testkit.NewCluster(t, config).Apply(t, nested(namespace))

	want := strings.ReplaceAll(`KIND            NAMESPACE  NAME    READY    REASON  AGE  WAITS FOR
ConfigMap       NS         top     Unknown          0s
├─ ConfigMap    NS         middle  Unknown          0s   it has not been reconciled yet
│  └─ Secret    NS         low     True             0s
└─ Secret       NS         last    True             0s
`, "NS", namespace)
	for _, kind := range []string{"cm top", "configmap top", "configmaps top", "ConfigMap top", "configmaps.v1. top", "cm/top"} {
		t.Run("by the name "+kind, func(t *testing.T) {
			code, out, errs := call(t.Context(), append(append([]string{"tree"}, strings.Fields(kind)...), "-n", namespace, "--kubeconfig", file)...)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			if diff := cmp.Diff(squeeze(want), squeeze(age.ReplaceAllString(out, "0s"))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}

	t.Run("all of a kind", func(t *testing.T) {
		const want = `KIND    NAMESPACE  NAME      READY  REASON  AGE  WAITS FOR
Secret  NS         last      True           0s
Secret  NS         low       True           0s
Secret  NS         stranger  True           0s
`
		for _, where := range []string{"-n=" + namespace, "-A"} {
			code, out, errs := call(t.Context(), "tree", "secrets", where, "--kubeconfig", file)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			var own strings.Builder // other tests have Secrets too
			for line := range strings.Lines(out) {
				if strings.Contains(line, namespace) || strings.HasPrefix(line, "KIND") {
					own.WriteString(line)
				}
			}
			if diff := cmp.Diff(squeeze(strings.ReplaceAll(want, "NS", namespace)), squeeze(age.ReplaceAllString(own.String(), "0s"))); diff != "" {
				t.Errorf("%s, -want +got:\n%s", where, diff)
			}
		}
		_, out, _ := call(t.Context(), "tree", "secrets", "-n", namespace, "--kubeconfig", file, "-o", "json")
		var got []observe.Node
		if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 3 || got[2].Name != "stranger" {
			t.Errorf("%v: got %s", err, out)
		}
	})

	t.Run("as JSON", func(t *testing.T) {
		_, out, _ := call(t.Context(), "tree", "cm", "top", "-n", namespace, "--kubeconfig", file, "-o", "json")
		var got observe.Node
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			t.Fatal(err)
		}
		if got.Name != "top" || len(got.Children) != 2 || got.Children[0].Children[0].Name != "low" {
			t.Errorf("got %s", out)
		}
	})
}

// squeeze makes columns comparable whatever their width.
func squeeze(text string) string {
	return regexp.MustCompile(` {2,}`).ReplaceAllString(text, "  ")
}

func TestTreeErrors(t *testing.T) {
	config := testkit.Server(t)
	file, namespace := testkit.Kubeconfig(t, config), testkit.Namespace(t, config)
	tests := map[string]struct {
		args []string
		code int
		says string
	}{
		"an object that does not exist": {[]string{"tree", "cm", "nobody", "-n", namespace}, 1, "ConfigMap " + namespace + "/nobody not found"},
		"a kind with a typing error":    {[]string{"tree", "confgmap", "x"}, 1, `no matches for kind "confgmap"; did you mean "configmap"?`},
		"an unknown kind":               {[]string{"tree", "unicorn", "x"}, 1, `no matches for kind "unicorn"`},
		"no kind":                       {[]string{"tree"}, 2, "a kind and a name"},
		"no name after the slash":       {[]string{"tree", "cm/"}, 2, "KIND/NAME"},
		"two names":                     {[]string{"tree", "cm/x", "y"}, 2, "KIND/NAME"},
		"a name in all namespaces":      {[]string{"tree", "cm/x", "-A"}, 2, "--all-namespaces excludes a name"},
		"delete without a name":         {[]string{"delete", "cm"}, 2, "the name is missing"},
		"a kind without objects":        {[]string{"tree", "cm", "-n", "no-such-namespace"}, 0, "no objects found: all of kind ConfigMap in namespace no-such-namespace"},
		"an unknown output format":      {[]string{"tree", "cm", "x", "-o", "xml"}, 2, "must be one of table, json, yaml"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append(tt.args, "--kubeconfig", file)...)
			if code != tt.code || !strings.Contains(errs, tt.says) || out != "" {
				t.Errorf("exit code %d, %q, %q; want %d and %q", code, out, errs, tt.code, tt.says)
			}
		})
	}
}
