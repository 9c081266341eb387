package security

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/espalier-dev/espalier/internal/migration/backup"
	"github.com/espalier-dev/espalier/internal/migration/backup/archive"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/suite"
)

var environment = schema.GroupVersionKind{Group: "apiextensions.crossplane.io", Version: "v1beta1", Kind: "EnvironmentConfig"}

// newArchive is an archive of the objects, as its author may write it.
func newArchive(t *testing.T, s suite.Suite, yaml string) archive.File {
	t.Helper()
	objects := testkit.Parse(t, s.Expand(yaml))
	header := archive.NewHeader(s.NS, time.Now(), "elsewhere", "test")
	var body bytes.Buffer
	for _, o := range objects {
		header.Counts[archive.CountName(object.KeyOf(o).GroupKind())]++
		raw, err := archive.Encode(o)
		if err != nil {
			t.Fatal(err)
		}
		body.Write(raw)
	}
	raw, err := header.Encode()
	if err != nil {
		t.Fatal(err)
	}
	file, err := archive.Decode(bytes.NewReader(append(raw, body.Bytes()...)), archive.MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func newImport(t *testing.T, config *rest.Config, file archive.File) *backup.Import {
	t.Helper()
	to, err := backup.Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	return &backup.Import{Cluster: to, File: file, Holder: "test", Patience: testkit.Timeout, Progress: t.Logf}
}

// checkRefused runs an import, and expects that it writes nothing and names all problems at once.
func checkRefused(t *testing.T, config *rest.Config, file archive.File, want ...string) {
	t.Helper()
	crash := testkit.NewCrash(0)
	err := newImport(t, crash.Wrap(config), file).Run(t.Context())
	var problems *backup.ProblemsError
	if !errors.As(err, &problems) {
		t.Errorf("the import ended with %v", err)
		return
	}
	for _, words := range want {
		if !strings.Contains(err.Error(), words) {
			t.Errorf("the error does not contain %q:\n%v", words, err)
		}
	}
	if n := crash.Writes(); n > 0 {
		t.Errorf("the import made %d writes", n)
	}
}

// TestAnArchiveContainsOnlyWhatAnExportWrites has an administrator import an archive that would make
// its author a cluster administrator.
func TestAnArchiveContainsOnlyWhatAnExportWrites(t *testing.T) {
	s := suite.New(t)
	file := newArchive(t, s, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: $ID-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, namespace: $NS, name: author}]
---
apiVersion: v1
kind: Secret
metadata: {name: $ID-token, namespace: kube-system, annotations: {kubernetes.io/service-account.name: default}}
type: kubernetes.io/service-account-token
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: $ID-hook}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: loose, namespace: $NS}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-roles}
spec: {schema: {group: rbac.authorization.k8s.io, apiVersion: v1, kind: ClusterRole}, serviceAccount: {namespace: $NS, name: nobody}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: $ID-role}
rules: [{apiGroups: ["*"], resources: ["*"], verbs: ["*"]}]
---
apiVersion: internal.kro.run/v1alpha1
kind: GraphRevision
metadata: {name: $ID-roles-r00001}
spec: {revision: 1, account: "system:serviceaccount:kube-system:admin", snapshot: {name: $ID-roles, generation: 1, spec: {schema: {kind: X}}}}
---
apiVersion: internal.kro.run/v1alpha1
kind: GraphRevision
metadata: {name: $ID-else-r00001}
spec: {revision: 1, account: controllers, snapshot: {name: $ID-else, generation: 1, spec: {schema: {kind: X}}}}
`)
	checkRefused(t, s.Config, file,
		s.Expand("ClusterRoleBinding $ID-admin of rbac.authorization.k8s.io/v1 is not accepted"),
		s.Expand("Secret kube-system/$ID-token of v1 is not accepted"),
		s.Expand("MutatingWebhookConfiguration $ID-hook of admissionregistration.k8s.io/v1 is not accepted"),
		s.Expand("ConfigMap $NS/loose of v1 is not accepted"),
		s.Expand("ClusterRole $ID-role of rbac.authorization.k8s.io/v1 is not accepted: ResourceGraphDefinition $ID-roles of the export defines its kind"),
		s.Expand("GraphRevision $ID-else-r00001 of internal.kro.run/v1alpha1 is not accepted"),
		"--allow-account kube-system/admin",
	)
	if s.Get(t, clusterRoleBinding, "", s.Name("admin")) != nil {
		t.Error("the author of the archive is cluster-admin")
	}
}

// TestAnArchiveChoosesNoAccount has a user import a definition and its revision with a service
// account that the user may not use.
func TestAnArchiveChoosesNoAccount(t *testing.T) {
	s := suite.New(t)
	const verbs = "verbs: [create, delete, get, list, patch, update]"
	operator := userConfig(t, s, "operator", "", `[{apiGroups: ["*"], resources: ["*"], `+verbs+`}]`)
	file := newArchive(t, s, `
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: $ID-site}
spec:
  serviceAccount: {namespace: kube-system, name: admin}
  schema: {apiVersion: v1alpha1, kind: Site, group: $GROUP}
  resources: [{id: page, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}}}]
---
apiVersion: internal.kro.run/v1alpha1
kind: GraphRevision
metadata: {name: $ID-site-r00001}
spec: {revision: 1, account: "system:serviceaccount:kube-system:admin", snapshot: {name: $ID-site, generation: 1, spec: {schema: {kind: Site}}}}
`)
	checkRefused(t, operator, file, "you are not allowed to use service account admin of namespace kube-system")
}

// TestAnImportDeletesNothingThatItDidNotCreate has an object in the cluster that the archive describes as being deleted, and one
// that another client creates with the annotation of an import of the archive.
func TestAnImportDeletesNothingThatItDidNotCreate(t *testing.T) {
	s := suite.New(t)
	const existing = `
apiVersion: apiextensions.crossplane.io/v1beta1
kind: EnvironmentConfig
metadata: {name: $ID-existing, annotations: {espalier.dev/import: import-$NS/%s}}
data: {a: b}
`
	s.Apply(t, fmt.Sprintf(existing, "before"))
	deleting := newArchive(t, s, strings.Replace(fmt.Sprintf(existing, "x"), "annotations: {", "annotations: {espalier.dev/export-deleting: Background, ", 1))
	checkRefused(t, s.Config, deleting, "EnvironmentConfig "+s.Name("existing")+" exists; an import overwrites nothing")
	s.Delete(t, environment, "", s.Name("existing"))

	file := newArchive(t, s, `
apiVersion: apiextensions.crossplane.io/v1beta1
kind: EnvironmentConfig
metadata: {name: $ID-a-new, ownerReferences: [{apiVersion: v1, kind: Namespace, name: $NS, uid: x}]}
data: {a: b}
---`+fmt.Sprintf(existing, "x"))
	planned, err := newImport(t, s.Config, file).Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"create EnvironmentConfig " + s.Name("a-new"), "create EnvironmentConfig " + s.Name("existing")}
	if diff := cmp.Diff(want, texts(planned)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if s.Get(t, environment, "", s.Name("a-new")) != nil {
		t.Error("a dry run has created an object")
	}
	crash := testkit.NewCrash(2) // after the Hold and one object
	if err := newImport(t, crash.Wrap(s.Config), file).Run(t.Context()); !errors.Is(err, testkit.ErrCrashed) {
		t.Fatal(err)
	}
	if s.Get(t, environment, "", s.Name("a-new")) == nil {
		t.Fatal("the import has created nothing before the crash")
	}
	s.Apply(t, fmt.Sprintf(existing, "before")) // by another client, meanwhile
	uid := s.Get(t, environment, "", s.Name("existing")).GetUID()
	if err := newImport(t, s.Config, file).Abort(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := s.Get(t, environment, "", s.Name("existing")); left == nil || left.GetUID() != uid {
		t.Error("the abort has deleted an object that another client created")
	}
	s.Delete(t, environment, "", s.Name("existing"))
	if s.Get(t, environment, "", s.Name("a-new")) != nil {
		t.Error("the abort has left an object that the import created")
	}

	i := newImport(t, s.Config, file)
	var done []backup.Step
	i.Done = func(step backup.Step) { done = append(done, step) }
	if err := i.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, texts(done)); diff != "" {
		t.Errorf("run (-planned +done):\n%s", diff)
	}
	if refs := s.Get(t, environment, "", s.Name("a-new")).GetOwnerReferences(); len(refs) > 0 {
		t.Errorf("the archive's owner references are %v", refs)
	}
}

func texts(steps []backup.Step) []string {
	var out []string
	for _, step := range steps {
		out = append(out, step.String())
	}
	return out
}

// TestAnExportFollowsNoReferenceOutOfItsNamespace has a tenant refer to a Secret of another
// namespace by a provider configuration.
func TestAnExportFollowsNoReferenceOutOfItsNamespace(t *testing.T) {
	s := suite.New(t)
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.cloud.$GROUP}
spec:
  group: cloud.$GROUP
  scope: %[3]s
  names: {kind: %[2]s, plural: %[1]s, categories: [%[4]s]}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---`
	s.Apply(t, fmt.Sprintf(crd, "disks", "Disk", "Namespaced", "managed")+
		fmt.Sprintf(crd, "providerconfigs", "ProviderConfig", "Namespaced", "x")+
		fmt.Sprintf(crd, "clusterproviderconfigs", "ClusterProviderConfig", "Cluster", "x")+`
apiVersion: v1
kind: Secret
metadata: {name: mine, namespace: $NS}
stringData: {key: allowed-value}
---
apiVersion: v1
kind: Secret
metadata: {name: $ID-theirs, namespace: kube-system}
stringData: {key: canary-value}
`)
	for _, name := range []string{"disks", "providerconfigs", "clusterproviderconfigs"} {
		s.Await(t, suite.CRD, "", s.Expand(name+".cloud.$GROUP"), suite.HasCondition("Established", "True", "InitialNamesAccepted"))
	}
	tenant := user(t, s, "tenant", s.NS, `[{apiGroups: [cloud.`+s.Group+`], resources: [providerconfigs], verbs: [create, get, patch]}]`)
	if err := apply(t, s, tenant, `
apiVersion: cloud.$GROUP/v1
kind: ProviderConfig
metadata: {name: default, namespace: $NS}
spec: {credentials: {secretRef: {name: mine}}, more: {secretRef: {name: $ID-theirs, namespace: kube-system}}}
`); err != nil {
		t.Fatal(err)
	}
	run := func(selection archive.Selection) (string, archive.Header) {
		t.Helper()
		from, err := backup.Connect(s.Config)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		e := backup.Export{Cluster: from, Selection: selection, Secrets: true, Version: "test", ID: "x" + s.NS, Now: time.Now(), Progress: t.Logf}
		var header archive.Header
		testkit.Poll(t, "discovery has the kinds of the controllers, and the export is written", func() bool {
			out.Reset()
			header, err = e.Run(t.Context(), &out)
			return err == nil
		})
		return out.String(), header
	}
	const allowed, canary = "YWxsb3dlZC12YWx1ZQ", "Y2FuYXJ5LXZhbHVl"
	check := func(what string, selection archive.Selection) {
		t.Helper()
		text, header := run(selection)
		if !strings.Contains(text, allowed) || strings.Contains(text, canary) {
			t.Errorf("%s: the Secrets are not the expected ones", what)
		}
		if notes := strings.Join(header.Notes, "\n"); !strings.Contains(notes, "refers to Secret kube-system/"+s.Name("theirs")+", which is not exported") {
			t.Errorf("%s: the notes are %s", what, notes)
		}
	}
	check("a whole export", archive.Selection{})
	s.Apply(t, "apiVersion: cloud.$GROUP/v1\nkind: ClusterProviderConfig\nmetadata: {name: $ID}\nspec: {secretRef: {name: $ID-theirs, namespace: kube-system}}\n")
	check("an export of a namespace", archive.Selection{Namespaces: []string{s.NS}})
	if text, _ := run(archive.Selection{}); !strings.Contains(text, canary) {
		t.Error("a whole export has no Secret of a configuration of the cluster")
	}
}
