package cli

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/espalier-dev/espalier/providers/aws/v1alpha1"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

func TestAWSVerbsWithoutACluster(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("KUBECONFIG", missing)
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"TypesOfAPattern":         {[]string{"types", "AWS::EC2::VP?C"}, exitFailed, "no resource type matches"},
		"Types":                   {[]string{"types", "AWS::EC2::VPC"}, exitDone, "AWS::EC2::VPC  VPC   ec2.aws.espalier.dev  yes     yes   yes"},
		"TypesOfARegion":          {[]string{"types", "AWS::EC2::VPC", "--region", "eu-central-1"}, exitDone, "AWS::EC2::VPC"},
		"TypesOfNoRegion":         {[]string{"types", "AWS::EC2::VPC", "--region", "mars"}, exitFailed, "no type is known in region mars"},
		"TypesInLowerCase":        {[]string{"types", "aws::ec2::vpc"}, exitFailed, "names are case-sensitive, as in AWS::EC2::VPC"},
		"TypesThatOthersReplace":  {[]string{"types", "AWS::SQS::QueuePolicy"}, exitFailed, "use AWS::SQS::QueueInlinePolicy"},
		"TypesInAnotherFormat":    {[]string{"types", "-o", "xml"}, exitUsage, "must be one of table, json, yaml"},
		"PolicyOfATypo":           {[]string{"policy", "AWS::EC2::Vpx"}, exitFailed, "no resource type matches"},
		"Policy":                  {[]string{"policy", "AWS::EC2::VPC"}, exitDone, "ec2:CreateVpc"},
		"PoliciesAtOnce":          {[]string{"policy", "AWS::*"}, exitFailed, "set --output-dir"},
		"PolicyOnDemand":          {[]string{"policy", "AWS::EC2::VPC", "--on-demand"}, exitUsage, "without a pattern"},
		"PolicyOfAHandler":        {[]string{"policy", "AWS::IAM::AccessKey"}, exitDone, "sts:GetCallerIdentity"},
		"RBAC":                    {[]string{"rbac", "AWS::EC2::VPC", "--scope", "Cluster"}, exitDone, "- clustervpcs\n"},
		"RBACForTenants":          {[]string{"rbac", "AWS::EC2::VPC", "--for", "tenant"}, exitDone, "rbac.espalier.dev/aggregate-to-tenant"},
		"RBACForSomebody":         {[]string{"rbac", "AWS::EC2::VPC", "--for", "somebody"}, exitUsage, "composer, provider, tenant, viewer"},
		"RBACOfAnUnknownScope":    {[]string{"rbac", "AWS::EC2::VPC", "--scope", "All"}, exitUsage, "Namespaced or Cluster"},
		"ActivateNothing":         {[]string{"activate"}, exitUsage, "takes resource types"},
		"ActivateATypo":           {[]string{"activate", "AWS::EC2::Vpx"}, exitFailed, "no resource type matches"},
		"ActivateWithoutACluster": {[]string{"activate", "AWS::EC2::VPC"}, exitFailed, missing},
		"DeactivateNothing":       {[]string{"deactivate"}, exitUsage, "takes resource types"},
		"ImportNothing":           {[]string{"import"}, exitUsage, "takes a resource type"},
		"ImportATypo":             {[]string{"import", "AWS::EC2::Vpx", "x"}, exitFailed, "'espalier aws types' lists all that can be served (schemas of 20"},
		"ImportWithoutSelection":  {[]string{"import", "AWS::EC2::VPC"}, exitUsage, "identifiers, --tag or both"},
		"ImportTwoSelections":     {[]string{"import", "AWS::EC2::VPC", "--all", "--tag", "a=b"}, exitUsage, "or --all alone"},
		"ImportAWrongTag":         {[]string{"import", "AWS::EC2::VPC", "--tag", "a"}, exitUsage, "KEY=VALUE"},
		"ImportAWrongName":        {[]string{"import", "AWS::EC2::VPC", "x", "--name", "A_B"}, exitUsage, "--name"},
		"Schema":                  {[]string{"schema"}, exitDone, "resource types, taken from AWS on"},
		"UpdateOfNoWheel":         {[]string{"schema", "update", "--from", missing}, exitFailed, missing},
		"UpdateOfBoth":            {[]string{"schema", "update", "--from", missing, "--version", "1"}, exitUsage, "exclude each other"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append([]string{"aws"}, tc.args...)...)
			if code != tc.code || !strings.Contains(out+errs, tc.want) {
				t.Errorf("exit code %d, want %d with %q; %s%s", code, tc.code, tc.want, out, errs)
			}
		})
	}
}

func TestAWSVerbsWithoutAnAPIServer(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close() // nobody listens at its address any more
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	text := `{"clusters": [{"name": "c", "cluster": {"server": "` + server.URL + `"}}], "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}`
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	for _, args := range [][]string{{"activate", "AWS::EC2::VPC"}, {"deactivate", "AWS::EC2::VPC"}, {"activations"}, {"policy"}, {"rbac"}} {
		t.Run(args[0], func(t *testing.T) {
			code, out, errs := call(t.Context(), append([]string{"aws"}, args...)...)
			if code != exitFailed || out != "" || !strings.Contains(errs, strings.TrimPrefix(server.URL, "http://")) {
				t.Errorf("exit code %d, %s%s", code, out, errs)
			}
		})
	}
}

func TestOnlyOnRequestRolesOfUsersHaveClusterScopedKinds(t *testing.T) {
	cases := map[string]struct {
		args []string
		want bool
	}{
		"Tenant":           {[]string{"--for", "tenant"}, false},
		"Viewer":           {[]string{"--for", "viewer"}, false},
		"Composer":         {[]string{"--for", "composer"}, true},
		"Provider":         {nil, true},
		"TenantOnRequest":  {[]string{"--for", "tenant", "--scope", "Namespaced,Cluster"}, true},
		"ProviderInScopes": {[]string{"--scope", "Namespaced"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t.Context(), append([]string{"aws", "rbac", "AWS::EC2::VPC"}, tc.args...)...)
			if got := strings.Contains(out, "- clustervpcs\n"); code != exitDone || !strings.Contains(out, "- vpcs\n") || got != tc.want {
				t.Errorf("exit code %d, with cluster-scoped kinds: %t; %s%s", code, got, out, errs)
			}
		})
	}
}

func TestRolesOfDifferentCallsHaveDifferentNames(t *testing.T) {
	both := []string{"Namespaced", "Cluster"}
	cases := map[string]struct {
		patterns, scopes []string
		want             string
	}{
		"WithoutAPattern": {nil, both, ""},
		"OfAType":         {[]string{"AWS::EC2::VPC"}, both, "-ec2-vpc"},
		"OfAService":      {[]string{"AWS::EC2::*"}, both, "-ec2-all"},
		"OfTwo":           {[]string{"AWS::S3::Bucket", "AWS::EC2::V*"}, both, "-ec2-v-all-s3-bucket"},
		"OfAScope":        {[]string{"AWS::EC2::VPC"}, []string{"Cluster"}, "-ec2-vpc-cluster"},
		"OfEachScope":     {[]string{"AWS::EC2::VPC"}, []string{"Cluster", "Namespaced"}, "-ec2-vpc"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := roleSuffix(tc.patterns, tc.scopes); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	many := slices.Repeat([]string{"AWS::EC2::VPC"}, 2)
	for i := range many {
		many[i] += strings.Repeat("x", 100+i)
	}
	if one, other := roleSuffix(many[:1], both), roleSuffix(many, both); one == other || len(other) > roleSuffixLength+20 {
		t.Errorf("%q and %q", one, other)
	}
}

func TestWhatIsActivated(t *testing.T) {
	a := *activationWith(1, 1)
	a.Spec.Types, a.Spec.OnDemand = []resource.TypePattern{"AWS::EC2::VPC", "AWS::Wrong::["}, []resource.TypePattern{"AWS::EKS::*"}
	a.Status.Types = []resource.ActivatedType{
		{Type: "AWS::Wrong::[", State: resource.StateUnknown},
		{Type: "AWS::EKS::Addon", Kind: "Addon.eks.aws.espalier.dev", State: resource.StateTooMany},
		{Type: "AWS::S3::Bucket", Kind: "Bucket.s3.aws.espalier.dev", State: resource.StateDeactivated},
		{Type: "AWS::EC2::VPC", Kind: "VPC.ec2.aws.espalier.dev", State: resource.StateServed},
		{Type: "AWS::EKS::Cluster", Kind: "Cluster.eks.aws.espalier.dev", State: resource.StateServed},
	}
	a.Status.Kinds = resource.ActivatedKinds{Activated: 3, Deactivated: 1}
	names, notes := activatedTypes([]v1alpha1.ResourceTypeActivation{a, a}, false)
	if diff := cmp.Diff([]string{"AWS::EC2::VPC", "AWS::EKS::Cluster", "AWS::S3::Bucket"}, names); diff != "" || len(notes) > 0 {
		t.Errorf("notes %q, %s", notes, diff)
	}
	if names, _ = activatedTypes([]v1alpha1.ResourceTypeActivation{a}, true); !slices.Contains(names, "AWS::EKS::Nodegroup") {
		t.Errorf("got %q", names)
	}
	a.Status.Kinds.Activated = 200
	if _, notes = activatedTypes([]v1alpha1.ResourceTypeActivation{a}, false); len(notes) != 1 || !strings.Contains(notes[0], "lists 4 of 201 kinds") {
		t.Errorf("notes %q", notes)
	}
}

func TestPoliciesAreWrittenToFiles(t *testing.T) {
	directory := filepath.Join(t.TempDir(), "policies")
	code, out, errs := call(t.Context(), "aws", "policy", "AWS::*", "--output-dir", directory)
	if code != exitDone || !strings.HasPrefix(out, filepath.Join(directory, "policy-1.json")+"\n") {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	for _, file := range strings.Fields(out) {
		raw, err := os.ReadFile(file)
		if err != nil || !json.Valid(raw) {
			t.Errorf("%s: %v", file, err)
		}
	}
	if code, _, errs := call(t.Context(), "aws", "policy", "AWS::EC2::VPC", "--output-dir", directory); code != exitFailed || !strings.Contains(errs, "is from an earlier call") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

func TestTypesAsJSON(t *testing.T) {
	code, out, _ := call(t.Context(), "aws", "types", "AWS::EC2::VPCCidrBlock", "-o", "json")
	var rows []typeRow
	if err := json.Unmarshal([]byte(out), &rows); code != exitDone || err != nil || len(rows) != 1 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	rows[0].Regions = 0
	want := typeRow{Type: "AWS::EC2::VPCCidrBlock", Kind: "VPCCidrBlock", Group: "ec2.aws.espalier.dev", Listable: true, Identifier: "Id|VpcId"}
	if diff := cmp.Diff(want, rows[0]); diff != "" {
		t.Error(diff)
	}
}

func activationWith(generation, observed int64, conditions ...resource.Condition) *v1alpha1.ResourceTypeActivation {
	a := &v1alpha1.ResourceTypeActivation{}
	a.Name, a.Generation, a.Status.ObservedGeneration, a.Status.Conditions = "default", generation, observed, conditions
	return a
}

func TestProgressOfAnActivation(t *testing.T) {
	ready := func(status metav1.ConditionStatus, reason resource.ActivationReason) resource.Condition {
		return resource.Condition{Type: "Ready", Status: status, Reason: string(reason), Message: "m"}
	}
	cases := map[string]struct {
		of   *v1alpha1.ResourceTypeActivation
		want progress
	}{
		"NotReconciledYet": {activationWith(2, 1, ready(metav1.ConditionTrue, resource.Active)), progress{Waiting: "the provider has not reconciled ResourceTypeActivation default yet; is it running?"}},
		"Served":           {activationWith(2, 2, ready(metav1.ConditionTrue, resource.Active)), progress{Done: true}},
		"Installing":       {activationWith(2, 2, ready(metav1.ConditionFalse, resource.Installing)), progress{Waiting: "Installing: m"}},
		"Retried":          {activationWith(2, 2, ready(metav1.ConditionFalse, resource.InstallationFailed)), progress{Waiting: "InstallationFailed: m"}},
		"Unknown":          {activationWith(2, 2, ready(metav1.ConditionFalse, resource.UnknownType)), progress{Failed: "UnknownType: m"}},
		"NoCondition":      {activationWith(2, 2), progress{Waiting: "ResourceTypeActivation default has no condition Ready yet"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, progressOf(tc.of)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestPatternsAreAddedAndRemovedOnce(t *testing.T) {
	got := addPatterns([]resource.TypePattern{"AWS::EC2::*"}, []string{"AWS::EKS::*", "AWS::EC2::*", "AWS::EKS::*"})
	if diff := cmp.Diff([]resource.TypePattern{"AWS::EC2::*", "AWS::EKS::*"}, got); diff != "" {
		t.Error(diff)
	}
	of := activateFlags{name: "default"}
	spec := resource.ActivationSpec{Types: got, OnDemand: []resource.TypePattern{"AWS::EC2::*", "AWS::IAM::*"}}
	if err := of.remove(&spec, []string{"AWS::EC2::*"}); err != nil {
		t.Fatal(err)
	}
	want := resource.ActivationSpec{Types: []resource.TypePattern{"AWS::EKS::*"}, OnDemand: []resource.TypePattern{"AWS::IAM::*"}}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Error(diff)
	}
	err := of.remove(&spec, []string{"AWS::EKS::*", "AWS::EKS::Cluster"})
	if err == nil || !strings.HasSuffix(err.Error(), "does not have the pattern AWS::EKS::Cluster; nothing was changed. It has AWS::EKS::*, AWS::IAM::*") {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Error(diff)
	}
	if err := of.remove(&resource.ActivationSpec{}, []string{"AWS::EKS::*"}); err == nil || !strings.HasSuffix(err.Error(), "It has none") {
		t.Errorf("got %v", err)
	}
}

func TestAStateIsPrintedOnce(t *testing.T) {
	a, printed := activationWith(1, 1), map[string]string{}
	a.Status.Types = []resource.ActivatedType{{Type: "AWS::EC2::VPC", Kind: "VPC.ec2.aws.espalier.dev", State: resource.StateInstalling}, {Type: "AWS::X::*", State: resource.StateUnknown, Message: "m"}}
	if got := stateLines(a, printed); len(got) != 2 || got[1] != "AWS::X::*\t-\tUnknown: m" {
		t.Errorf("got %q", got)
	}
	a.Status.Types[0].State = resource.StateServed
	if got := stateLines(a, printed); len(got) != 1 || !strings.HasSuffix(got[0], "Served") {
		t.Errorf("got %q", got)
	}
}

func TestAWheelIsNamedLikeOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "schemas.zip")
	if err := os.WriteFile(file, []byte("no wheel"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := call(t.Context(), "aws", "schema", "update", "--from", file, "--output", file+".new"); code != exitFailed || !strings.Contains(errs, "not named like a wheel") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

func TestAScopeIsNotAddedToOtherTypes(t *testing.T) {
	cluster := activateFlags{name: "default", scopes: []string{"Cluster"}}
	s := resource.ActivationSpec{Types: []resource.TypePattern{"AWS::EC2::VPC"}, OnDemand: []resource.TypePattern{"AWS::EKS::*"}, Scopes: []resource.ActivationScope{resource.ScopeNamespaced}}
	if err := cluster.change(&s, []string{"AWS::EC2::VPC"}); err == nil || !strings.Contains(err.Error(), "(AWS::EKS::*): use --name") {
		t.Errorf("got %v", err)
	}
	if err := cluster.change(&s, []string{"AWS::EC2::VPC", "AWS::EKS::*"}); err != nil || len(s.Scopes) != 2 {
		t.Errorf("got %v, %v", s.Scopes, err)
	}
	if err := cluster.change(&s, []string{"AWS::S3::Bucket"}); err != nil || len(s.Types) != 3 {
		t.Errorf("of a scope that it has: %v, %v", s.Types, err)
	}
	var made resource.ActivationSpec
	if err := cluster.change(&made, []string{"AWS::S3::Bucket"}); err != nil || !slices.Equal(made.Scopes, []resource.ActivationScope{resource.ScopeCluster}) {
		t.Errorf("of a new one: %v, %v", made.Scopes, err)
	}
}
