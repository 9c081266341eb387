package gitops

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/espalier-dev/espalier/internal/authoring/workspace"
	"github.com/espalier-dev/espalier/internal/condition"
	"github.com/espalier-dev/espalier/internal/kube/crd"
	"github.com/espalier-dev/espalier/internal/observe/gitops"
	postgresql "github.com/espalier-dev/espalier/providers/postgresql/v1alpha1"
	sandbox "github.com/espalier-dev/espalier/providers/sandbox/v1alpha1"
)

// state is a recorded state of an object.
type state struct {
	// Of names what the object is: one of the roles.
	Of string `json:"of"`
	// Is says what has happened to it.
	Is      string         `json:"is"`
	Verdict verdict        `json:"verdict"`
	Object  map[string]any `json:"object"`
}

const recordedStates = "testdata/states.yaml"

func readStates(t *testing.T) []state {
	t.Helper()
	raw, err := os.ReadFile(recordedStates)
	if err != nil {
		t.Fatal(err)
	}
	raw, err = yaml.YAMLToJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	var out []state
	if err := utiljson.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// roles of objects: objects of kinds with one role have the same conditions.
const (
	instanceRole    = "instance of a graph"
	compositeRole   = "composite"
	claimRole       = "claim"
	managedRole     = "managed resource"
	definitionRole  = "definition of a graph"
	graphRevision   = "revision of a graph"
	graphRole       = "graph"
	xrdRole         = "definition of a composite"
	compositionRev  = "revision of a composition"
	functionRole    = "function"
	functionRevRole = "revision of a function"
	usageRole       = "usage"
	activationRole  = "activation"
)

// roleOf is the role of each kind that has conditions, beside those that definitions define.
var roleOf = map[schema.GroupKind]string{
	{Group: "kro.run", Kind: "ResourceGraphDefinition"}:                         definitionRole,
	{Group: "kro.run", Kind: "ResourceGroup"}:                                   definitionRole,
	{Group: "kro.run", Kind: "Graph"}:                                           graphRole,
	{Group: "internal.kro.run", Kind: "GraphRevision"}:                          graphRevision,
	{Group: "apiextensions.crossplane.io", Kind: "CompositeResourceDefinition"}: xrdRole,
	{Group: "apiextensions.crossplane.io", Kind: "CompositionRevision"}:         compositionRev,
	{Group: "pkg.crossplane.io", Kind: "Function"}:                              functionRole,
	{Group: "pkg.crossplane.io", Kind: "FunctionRevision"}:                      functionRevRole,
	{Group: "protection.crossplane.io", Kind: "Usage"}:                          usageRole,
	{Group: "protection.crossplane.io", Kind: "ClusterUsage"}:                   usageRole,
	{Group: "apiextensions.crossplane.io", Kind: "Usage"}:                       usageRole,
	{Group: "aws.espalier.dev", Kind: "ResourceTypeActivation"}:                 activationRole,
	{Group: "example.aws.espalier.dev", Kind: "Resource"}:                       managedRole,
	{Group: "sandbox.espalier.dev", Kind: "Bucket"}:                             managedRole,
	{Group: "sandbox.espalier.dev", Kind: "Cluster"}:                            managedRole,
	{Group: "sandbox.espalier.dev", Kind: "Network"}:                            managedRole,
	{Group: "sandbox.espalier.dev", Kind: "Role"}:                               managedRole,
	{Group: "sandbox.espalier.dev", Kind: "Subnet"}:                             managedRole,
	{Group: "postgresql.espalier.dev", Kind: "Database"}:                        managedRole,
	{Group: "postgresql.espalier.dev", Kind: "Extension"}:                       managedRole,
	{Group: "postgresql.espalier.dev", Kind: "Grant"}:                           managedRole,
	{Group: "postgresql.espalier.dev", Kind: "Role"}:                            managedRole,
	{Group: "postgresql.espalier.dev", Kind: "Schema"}:                          managedRole,
}

// withoutConditions are kinds that are complete when they exist: configuration, and records of the controllers.
var withoutConditions = []string{
	"Binding.espalier.dev", "Hold.espalier.dev", "RefusedDeletion.espalier.dev",
	"Composition.apiextensions.crossplane.io", "EnvironmentConfig.apiextensions.crossplane.io",
	"ProviderConfig.aws.espalier.dev", "ClusterProviderConfig.aws.espalier.dev",
	"ProviderConfig.postgresql.espalier.dev", "ClusterProviderConfig.postgresql.espalier.dev",
}

// ownedByPackageManagers are kinds whose objects another program may manage, which sets no observedGeneration.
var ownedByPackageManagers = []string{functionRole, functionRevRole}

// crds are those of Espalier and its providers.
func crds(t *testing.T) []*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	out := slices.Clone(workspace.OwnDefinitions())
	for _, files := range []fs.FS{sandbox.CRDs, postgresql.CRDs, os.DirFS("../../providers/aws/v1alpha1"), os.DirFS("../../providers/aws/crd/base")} {
		err := fs.WalkDir(files, ".", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".yaml") {
				return err
			}
			raw, err := fs.ReadFile(files, path)
			if err != nil {
				return err
			}
			c := &apiextensionsv1.CustomResourceDefinition{}
			if err := yaml.Unmarshal(raw, c); err != nil || c.Kind != crd.Kind.Kind {
				return err
			}
			if c.Spec.Names.Kind == "Resource" {
				c.Spec.Group = "example.aws.espalier.dev" // it is the pattern of the kinds of resource types
			}
			out = append(out, c)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// TestEveryKindHasARole finds all kinds of Espalier and its providers: those with conditions have a role, of which states
// are recorded, and the others are named here.
func TestEveryKindHasARole(t *testing.T) {
	found := map[string]map[string]bool{}
	for _, s := range readStates(t) {
		if found[s.Of] == nil {
			found[s.Of] = map[string]bool{}
		}
		found[s.Of][s.Verdict.Kstatus] = true
	}
	check := func(role string) {
		t.Helper()
		other := found[role]["InProgress"] || found[role]["Failed"] || role == graphRevision // which is only created once it compiles
		if !found[role]["Current"] || !other {
			t.Errorf("%s has no state for a %s that is Current, or none for another", recordedStates, role)
		}
	}
	for _, role := range []string{instanceRole, compositeRole, claimRole} {
		check(role)
	}
	all := crds(t)
	kinds := gitops.Kinds(all)
	for _, c := range all {
		gk := crd.GroupKind(c)
		role, has := roleOf[gk]
		reports := slices.ContainsFunc(kinds, func(k schema.GroupVersionKind) bool { return k.GroupKind() == gk })
		switch {
		case reports && has:
			check(role)
			checkSchema(t, c, role)
		case reports:
			t.Errorf("%s has conditions, and no role in this test", gk)
		case !slices.Contains(withoutConditions, gk.String()):
			t.Errorf("%s has no conditions: name it in withoutConditions, or give it some", gk)
		}
		if !gitops.IsOurs(c) && strings.HasSuffix(gk.Group, "espalier.dev") {
			t.Errorf("%s does not count as ours", gk)
		}
	}
	if len(kinds) < 20 {
		t.Errorf("only %d kinds have conditions", len(kinds))
	}
}

// checkSchema checks that the status has observedGeneration in each version, and that new objects have not been observed.
func checkSchema(t *testing.T, c *apiextensionsv1.CustomResourceDefinition, role string) {
	t.Helper()
	for _, v := range c.Spec.Versions {
		status := v.Schema.OpenAPIV3Schema.Properties["status"]
		if _, has := status.Properties["observedGeneration"]; !has {
			t.Errorf("%s %s has no status.observedGeneration", crd.GroupKind(c), v.Name)
		}
		isDefault := status.Default != nil && strings.Contains(string(status.Default.Raw), "-1")
		if isDefault == slices.Contains(ownedByPackageManagers, role) {
			t.Errorf("%s %s: the default of the status is %v", crd.GroupKind(c), v.Name, status.Default)
		}
	}
}

// TestNewObjectsAreInProgress has objects that no controller has seen yet.
func TestNewObjectsAreInProgress(t *testing.T) {
	for _, c := range crds(t) {
		for _, v := range c.Spec.Versions {
			status := v.Schema.OpenAPIV3Schema.Properties["status"]
			if status.Default == nil {
				continue
			}
			o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "new", "generation": int64(1)}}}
			o.SetGroupVersionKind(crd.GroupKind(c).WithVersion(v.Name))
			var initial map[string]any
			if err := utiljson.Unmarshal(status.Default.Raw, &initial); err != nil {
				t.Fatal(err)
			}
			o.Object["status"] = initial
			if got, want := verdictOf(t, o), (verdict{"InProgress", "Progressing", "InProgress"}); got != want {
				t.Errorf("%s: want %+v, got %+v", o.GroupVersionKind(), want, got)
			}
		}
	}
}

// TestToolsAgreeOnRecordedStates runs the recorded states through kstatus, the script of Argo CD and the expressions of Flux.
func TestToolsAgreeOnRecordedStates(t *testing.T) {
	same := map[string][]string{
		"Current/Current": {"Healthy"}, "InProgress/InProgress": {"Progressing", "Suspended"}, "Failed/Failed": {"Degraded"},
		"Terminating/InProgress": {"Progressing"}, "Terminating/Failed": {"Progressing"}, "Terminating/Current": {"Progressing"},
	}
	for _, s := range readStates(t) {
		t.Run(s.Of+"/"+s.Is, func(t *testing.T) {
			o := &unstructured.Unstructured{Object: s.Object}
			got := verdictOf(t, o)
			if got != s.Verdict {
				t.Errorf("want %+v, got %+v", s.Verdict, got)
			}
			if stalled, _ := condition.Read(o).Get(condition.TypeStalled); stalled.Status == condition.True && got.Kstatus == "InProgress" {
				t.Errorf("it is stalled, and kstatus waits for it")
			}
			agree := slices.Contains(same[got.Kstatus+"/"+got.Flux], got.ArgoCD)
			if why, known := disagreements[s.Of+", "+s.Is]; agree == known {
				t.Errorf("the tools find %+v; expected to differ: %q", got, why)
			}
		})
	}
}

// disagreements are states that the tools tell apart, and why.
var disagreements = map[string]string{
	"instance of a graph, waiting with the author's conditions": "kstatus knows no state, and the author has no Ready",
	"composite, paused while it is ready":                       "only Argo CD knows objects that are suspended",
}
