package archive

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	espalier "github.com/espalier-dev/espalier/api/espalier/v1alpha1"
	"github.com/espalier-dev/espalier/internal/object"
)

// decode decodes an archive of the objects, with the right counts.
func decode(t *testing.T, documents ...string) File {
	t.Helper()
	counts := map[string]int{}
	for _, d := range documents {
		counts[CountName(object.KeyOf(parse(t, d)).GroupKind())]++
	}
	f, err := Decode(strings.NewReader(header(t, counts)+"---\n"+strings.Join(documents, "\n---\n")), MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// targetKinds are the kinds of a cluster: managed Buckets with their configurations, Apps of a
// graph definition, Widgets that no definition defines, and built-in kinds.
var targetKinds = map[schema.GroupKind]TargetKind{
	{Group: "cloud.example.org", Kind: "Bucket"}:                                  {Custom: true, Managed: true},
	{Group: "cloud.example.org", Kind: "ProviderConfig"}:                          {Custom: true},
	{Group: "other.example.org", Kind: "ProviderConfig"}:                          {Custom: true},
	{Group: "kro.run", Kind: "App"}:                                               {Custom: true, Definition: object.Key{Group: "kro.run", Kind: "ResourceGraphDefinition", Name: "apps"}},
	{Group: "kro.run", Kind: "Widget"}:                                            {Custom: true},
	{Kind: "Namespace"}:                                                           {},
	{Kind: "Secret"}:                                                              {},
	{Kind: "ConfigMap"}:                                                           {},
	{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}:              {},
	{Group: "espalier.dev", Kind: "Hold"}:                                         {Custom: true},
	{Group: "espalier.dev", Kind: "RefusedDeletion"}:                              {Custom: true},
	{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}:             {},
	{Group: "admissionregistration.k8s.io", Kind: "MutatingWebhookConfiguration"}: {},
}

const (
	apps   = "{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: apps}, spec: {schema: {apiVersion: v1, kind: App}}}"
	config = "{apiVersion: cloud.example.org/v1, kind: ProviderConfig, metadata: {name: default, namespace: prod}, spec: {secretRef: {name: creds}, other: {secretRef: {name: root, namespace: kube-system}}}}"
)

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		reason    string
		documents []string
		want      []string
	}{
		"an export's objects": {
			"they are what an export writes",
			[]string{
				"{apiVersion: v1, kind: Namespace, metadata: {name: prod}}", apps, config,
				"{apiVersion: internal.kro.run/v1alpha1, kind: GraphRevision, metadata: {name: apps-r00001}, spec: {revision: 1, snapshot: {name: apps}}}",
				"{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: prod}}",
				"{apiVersion: cloud.example.org/v1, kind: Bucket, metadata: {name: a, namespace: prod}, status: {x: y}}",
				"{apiVersion: kro.run/v1, kind: App, metadata: {name: a, namespace: prod}}",
				"{apiVersion: protection.crossplane.io/v1beta1, kind: Usage, metadata: {name: a, namespace: prod}}",
			}, nil,
		},
		"kinds that no export has": {
			"they would be created with the permissions of the importing user",
			[]string{
				"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}}",
				"{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: a}}",
				"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: a}}",
				"{apiVersion: espalier.dev/v1alpha1, kind: Hold, metadata: {name: a}}",
				"{apiVersion: espalier.dev/v1alpha1, kind: RefusedDeletion, metadata: {name: a}}",
				"{apiVersion: kro.run/v1, kind: Widget, metadata: {name: a, namespace: prod}}",
				"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: prod}}",
			},
			[]string{
				"ConfigMap prod/a of v1", "CustomResourceDefinition a of apiextensions.k8s.io/v1", "Hold a of espalier.dev/v1alpha1",
				"MutatingWebhookConfiguration a of admissionregistration.k8s.io/v1", "RefusedDeletion a of espalier.dev/v1alpha1",
				"ClusterRoleBinding a of rbac.authorization.k8s.io/v1", "Widget prod/a of kro.run/v1",
			},
		},
		"a definition of the archive claims a kind that the cluster serves for something else": {
			"its objects would be taken for instances",
			[]string{
				"{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: roles}, spec: {schema: {group: rbac.authorization.k8s.io, apiVersion: v1, kind: ClusterRoleBinding}}}",
				"{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: others}, spec: {schema: {apiVersion: v1, kind: App}}}",
				"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: a}}",
				"{apiVersion: kro.run/v1, kind: App, metadata: {name: a, namespace: prod}}",
			},
			[]string{"App prod/a of kro.run/v1", "ClusterRoleBinding a of rbac.authorization.k8s.io/v1"},
		},
		"a configuration of a provider that the cluster doesn't have": {
			"the import reports that its kind is not served",
			[]string{"{apiVersion: new.example.org/v1, kind: ProviderConfig, metadata: {name: default, namespace: prod}}"}, nil,
		},
		"a definition of the archive and an instance of a kind that the cluster doesn't serve": {
			"the import creates the definition first",
			[]string{
				"{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: shops}, spec: {schema: {apiVersion: v1, kind: Shop}}}",
				"{apiVersion: kro.run/v1, kind: Shop, metadata: {name: a, namespace: prod}}",
			}, nil,
		},
		"Secrets": {
			"only those that configurations may refer to, and none that gives access to the cluster",
			[]string{
				config, "{apiVersion: v1, kind: Secret, metadata: {name: creds, namespace: prod}, type: kubernetes.io/service-account-token}",
				"{apiVersion: v1, kind: Secret, metadata: {name: root, namespace: kube-system}}",
				"{apiVersion: v1, kind: Secret, metadata: {name: loose, namespace: prod}}",
			},
			[]string{"Secret kube-system/root of v1", "Secret prod/creds of v1", "Secret prod/loose of v1"},
		},
		"the signing key": {
			"it would sign children of any instance",
			[]string{
				strings.ReplaceAll(config, "name: creds", "name: espalier-signing-key"),
				"{apiVersion: v1, kind: Secret, metadata: {name: espalier-signing-key, namespace: prod}}",
			},
			[]string{"Secret prod/espalier-signing-key of v1"},
		},
		"configurations of no provider": {
			"another program may read them", []string{"{apiVersion: other.example.org/v1, kind: ProviderConfig, metadata: {name: a}}"},
			[]string{"ProviderConfig a of other.example.org/v1"},
		},
		"a namespace without objects": {
			"its labels would be the archive's", []string{"{apiVersion: v1, kind: Namespace, metadata: {name: privileged}}"},
			[]string{"Namespace privileged of v1"},
		},
		"a status of a definition": {
			"the controllers compute it", []string{strings.TrimSuffix(apps, "}") + ", status: {servingRevision: 3}}"},
			[]string{"ResourceGraphDefinition apps of kro.run/v1alpha1"},
		},
		"a revision of a definition that is not in the archive": {
			"its account would be that of another definition",
			[]string{"{apiVersion: internal.kro.run/v1alpha1, kind: GraphRevision, metadata: {name: apps-r00007}, spec: {revision: 7, snapshot: {name: apps}}}"},
			[]string{"GraphRevision apps-r00007 of internal.kro.run/v1alpha1"},
		},
		"a revision of a composition that is not in the archive": {
			"the composites of an existing composition would follow it",
			[]string{"{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision, metadata: {name: shop-7, labels: {crossplane.io/composition-name: shop}}, spec: {revision: 7}}"},
			[]string{"CompositionRevision shop-7 of apiextensions.crossplane.io/v1"},
		},
		"a revision with the greatest number": {
			"the controllers add one to it",
			[]string{
				"{apiVersion: apiextensions.crossplane.io/v1, kind: Composition, metadata: {name: shop}}",
				"{apiVersion: apiextensions.crossplane.io/v1, kind: CompositionRevision, metadata: {name: shop-7, labels: {crossplane.io/composition-name: shop}}, spec: {revision: 9223372036854775807}}",
			},
			[]string{"CompositionRevision shop-7 of apiextensions.crossplane.io/v1"},
		},
		"a serving revision that is not in the archive": {
			"one of a former definition may exist",
			[]string{strings.Replace(apps, "name: apps}", `name: apps, annotations: {espalier.dev/served: '{"servingRevision":3}'}}`, 1)},
			[]string{"ResourceGraphDefinition apps of kro.run/v1alpha1"},
		},
	}
	for name, tc := range cases {
		var got []string
		for _, refusal := range decode(t, tc.documents...).Refusals(targetKinds) {
			subject, _, _ := strings.Cut(refusal, " is not accepted: ")
			got = append(got, subject)
		}
		slices.Sort(got)
		slices.Sort(tc.want)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.reason, diff)
		}
	}
}

func TestAccounts(t *testing.T) {
	definition := func(account string) string {
		return "{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: apps}, spec: {" + account + "schema: {apiVersion: v1, kind: App}}}"
	}
	group := "{apiVersion: kro.run/v1alpha1, kind: ResourceGroup, metadata: {name: apps, namespace: team}, spec: {schema: {apiVersion: v1, kind: App}}}"
	revision := func(namespace, account string) string {
		return "{apiVersion: internal.kro.run/v1alpha1, kind: GraphRevision, metadata: {name: apps-r00001}, spec: {revision: 1, account: '" + account + "', snapshot: {name: apps" + namespace + "}}}"
	}
	cases := map[string]struct {
		documents []string
		allowed   []string
		needsUse  []string
		want      string // a part of the only problem; empty for none
	}{
		"the account that the definition names":       {[]string{definition("serviceAccount: {namespace: a, name: b}, "), revision("", "system:serviceaccount:a:b")}, nil, []string{"a/b"}, ""},
		"the controllers, which the definition means": {[]string{definition(""), revision("", "controllers")}, nil, nil, ""},
		"no account, of an earlier release":           {[]string{definition(""), revision("", "")}, nil, nil, ""},
		"another account": {[]string{definition(""), revision("", "system:serviceaccount:kube-system:admin")}, nil, []string{"kube-system/admin"},
			"service account admin of namespace kube-system, which its definition in the export does not name: allow that with --allow-account kube-system/admin"},
		"the controllers, which the definition does not mean": {[]string{definition("serviceAccount: {namespace: a, name: b}, "), revision("", "controllers")}, nil, []string{"a/b"},
			"the permissions of the controllers"},
		"another account that is allowed":      {[]string{definition(""), revision("", "system:serviceaccount:a:b")}, []string{"a/b"}, []string{"a/b"}, ""},
		"the default account of the namespace": {[]string{group, revision(", namespace: team", "system:serviceaccount:team:espalier")}, nil, nil, ""},
		"an account of another namespace":      {[]string{group, revision(", namespace: team", "system:serviceaccount:kube-system:admin")}, []string{"kube-system/admin"}, nil, "can only use service accounts of its namespace"},
		"the controllers in a namespace":       {[]string{group, revision(", namespace: team", "controllers")}, []string{"controllers"}, nil, "can only use service accounts of its namespace"},
		"a user":                               {[]string{definition(""), revision("", "system:admin")}, []string{"system:admin"}, nil, "which is not a service account"},
		"a user that looks like an account":    {[]string{definition(""), revision("", "system:serviceaccount:a:b:c")}, nil, []string{"a/b:c"}, "--allow-account a/b:c"},
	}
	for name, tc := range cases {
		accounts, problems := decode(t, tc.documents...).Accounts()
		problems = append(problems, AccountProblems(accounts, tc.allowed)...)
		if len(problems) > 1 || (tc.want == "") != (len(problems) == 0) || !strings.Contains(strings.Join(problems, ""), tc.want) {
			t.Errorf("%s: the problems are %q", name, problems)
		}
		var needsUse []string
		for _, a := range accounts {
			if a.NeedsUse {
				needsUse = append(needsUse, a.String())
			}
		}
		if diff := cmp.Diff(tc.needsUse, needsUse); diff != "" {
			t.Errorf("%s: accounts that need the verb use (-want +got):\n%s", name, diff)
		}
	}
}

func TestCreatedBy(t *testing.T) {
	hold := parse(t, "{apiVersion: espalier.dev/v1alpha1, kind: Hold, metadata: {name: import-x, uid: hold-1, creationTimestamp: '2026-05-01T10:00:00Z'}}")
	cases := map[string]struct {
		by, at string
		hold   *unstructured.Unstructured
		want   bool
	}{
		"the import has created it":            {"import-x/hold-1", "2026-05-01T10:00:00Z", hold, true},
		"another import of the archive has":    {"import-x/hold-0", "2026-05-01T10:00:01Z", hold, false},
		"it only names the archive":            {"import-x/", "2026-05-01T10:00:01Z", hold, false},
		"it existed before, and was annotated": {"import-x/hold-1", "2026-05-01T09:59:59Z", hold, false},
		"it has no annotation":                 {"", "2026-05-01T10:00:01Z", hold, false},
		"no import is in progress":             {"import-x/hold-1", "2026-05-01T10:00:01Z", nil, false},
	}
	for name, tc := range cases {
		o := parse(t, "{apiVersion: v1, kind: X, metadata: {name: a, creationTimestamp: '"+tc.at+"'}}")
		annotate(o, espalier.ImportAnnotation, tc.by)
		if got := CreatedBy(o, tc.hold); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestAReferenceIsFollowedWithinTheNamespacesOfTheExport(t *testing.T) {
	namespaced := parse(t, "{apiVersion: x/v1, kind: ProviderConfig, metadata: {name: a, namespace: prod}}")
	clusterwide := parse(t, "{apiVersion: x/v1, kind: ClusterProviderConfig, metadata: {name: a}}")
	prod := Selection{Namespaces: []string{"prod", "web"}}
	cases := map[string]struct {
		from      *unstructured.Unstructured
		namespace string
		selection Selection
		want      bool
	}{
		"the namespace of the configuration":                     {namespaced, "prod", prod, true},
		"another exported namespace, from a namespace":           {namespaced, "web", prod, false},
		"another namespace, from a namespace, of a whole export": {namespaced, "web", Selection{}, false},
		"an exported namespace, from the cluster":                {clusterwide, "web", prod, true},
		"another namespace, from the cluster":                    {clusterwide, "kube-system", prod, false},
		"any namespace, from the cluster, of a whole export":     {clusterwide, "kube-system", Selection{}, true},
	}
	for name, tc := range cases {
		if got := MayFollow(tc.from, tc.namespace, tc.selection); got != tc.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestImportedRemovesWhatRefersToAnotherCluster(t *testing.T) {
	o := parse(t, "{apiVersion: x/v1, kind: X, metadata: {name: a, uid: u, resourceVersion: '7', generateName: a-, deletionTimestamp: '2026-05-01T10:00:00Z', ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: b}], annotations: {espalier.dev/import: import-y/z}}, status: {a: b}}")
	want := parse(t, "{apiVersion: x/v1, kind: X, metadata: {name: a, annotations: {espalier.dev/import: import-x/hold-1}}}")
	if diff := cmp.Diff(want.Object, Imported(o, "import-x/hold-1").Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestAnArchiveIsBounded(t *testing.T) {
	top := header(t, nil)
	nested := strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2)
	cases := map[string]struct{ text, want string }{
		"aliases":           {top + "---\na: &a " + strings.Repeat("x", 1000) + "\nb: [*a, *a]\n", "decode document 2 of the export: it has YAML anchors or aliases, which an export never has"},
		"aliases in header": {strings.Replace(top, "id: x", "id: &a x", 1), "it has YAML anchors or aliases"},
		"depth":             {top + "---\na: " + nested + "\n", "its values are nested more than 128 levels deep"},
		"a large document":  {top + "---\na: " + strings.Repeat("x", maxDocument) + "\n", "more than 4194304"},
		"a field twice":     {top + "---\na: 1\na: 2\n", "decode document 2 of the export"},
		"a large archive":   {top + "---\na: " + strings.Repeat("x", 1<<20) + "\n", "the export is larger than 1000000 bytes; if you trust it, raise --max-bytes"},
	}
	for name, tc := range cases {
		limit := int64(MaxBytes)
		if name == "a large archive" {
			limit = 1_000_000
		}
		if _, err := Decode(strings.NewReader(tc.text), limit); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := Decode(strings.NewReader(top), int64(len(top))); err != nil {
		t.Errorf("an archive of exactly the limit: %v", err)
	}
}

func TestNamesAreChecked(t *testing.T) {
	object := func(kind, namespace, name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x/v1", "kind": kind}}
		o.SetNamespace(namespace)
		o.SetName(name)
		return o
	}
	cases := map[string]struct {
		o  *unstructured.Unstructured
		id string
		ok bool
	}{
		"a valid name":            {object("X", "prod", "a.b:c"), "e1", true},
		"a path":                  {object("X", "prod", "../../secrets/a"), "e1", false},
		"a parent":                {object("X", "prod", ".."), "e1", false},
		"a path as the namespace": {object("X", "../x", "a"), "e1", false},
		"an escape sequence":      {object("X", "prod", "a\x1b[2J"), "e1", false},
		"a long name":             {object("X", "prod", strings.Repeat("a", maxName+1)), "e1", false},
		"a kind with a path":      {object("X/y", "prod", "a"), "e1", false},
		"an id with a path":       {object("X", "prod", "a"), "../x", false},
	}
	for name, tc := range cases {
		f := File{Header: Header{ID: tc.id, Counts: map[string]int{"X.x": 1}}, Sections: map[Section][]*unstructured.Unstructured{Managed: {tc.o}}}
		problems := f.Check()
		if tc.ok != (len(problems) == 0) {
			t.Errorf("%s: the problems are %q", name, problems)
		}
		for _, p := range problems {
			if strings.ContainsRune(p, '\x1b') || len(p) > 200 {
				t.Errorf("%s: the problem is not escaped or bounded: %q", name, p)
			}
		}
	}
}

func TestBindingsOfOneExternalResourceAreReported(t *testing.T) {
	bucket := func(name string) string {
		return "{apiVersion: cloud.example.org/v1, kind: Bucket, metadata: {name: " + name + ", namespace: prod}}"
	}
	binding := func(name, owner string) string {
		return "{apiVersion: espalier.dev/v1alpha1, kind: Binding, metadata: {name: " + name + "}, spec: {ref: assets, key: {scope: eu, type: bucket, name: assets}, owner: {apiVersion: cloud.example.org/v1, kind: Bucket, namespace: prod, name: " + owner + ", uid: u-" + owner + "}}}"
	}
	problems := decode(t, bucket("a"), bucket("b"), binding("k-1", "a"), binding("k-2", "b")).Check()
	if diff := cmp.Diff([]string{`Binding k-2: bucket "assets" in eu is reserved by Bucket prod/a and by Bucket prod/b`}, problems); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestARefusedInstanceNamesWhatDefinesItsKind(t *testing.T) {
	for kind, want := range map[string]string{"App": "which ResourceGraphDefinition apps defines in this cluster", "Widget": "which another program defines in this cluster"} {
		refusals := decode(t, "{apiVersion: kro.run/v1alpha1, kind: ResourceGraphDefinition, metadata: {name: others}, spec: {schema: {apiVersion: v1, kind: "+kind+"}}}",
			"{apiVersion: kro.run/v1, kind: "+kind+", metadata: {name: a, namespace: prod}}").Refusals(targetKinds)
		if len(refusals) != 1 || !strings.HasSuffix(refusals[0], want) {
			t.Errorf("%s: the refusals are %q", kind, refusals)
		}
	}
}
