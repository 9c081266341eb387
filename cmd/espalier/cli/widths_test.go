package cli

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/espalier-dev/espalier/cmd/espalier/cli/uninstall"
	"github.com/espalier-dev/espalier/internal/diag"
	"github.com/espalier-dev/espalier/internal/migration/backup"
	"github.com/espalier-dev/espalier/internal/object"
	"github.com/espalier-dev/espalier/internal/observe"
	"github.com/espalier-dev/espalier/internal/observe/reader"
	"github.com/espalier-dev/espalier/internal/program/server"
	"github.com/espalier-dev/espalier/internal/serving/install"
	"github.com/espalier-dev/espalier/internal/simulation/deftest"
	"github.com/espalier-dev/espalier/internal/testkit"
	"github.com/espalier-dev/espalier/internal/testkit/golden"
	"github.com/espalier-dev/espalier/sdk/managed/resource"
)

// TestTextFitsTheTerminal compares what verbs print on terminals of 80 and 120 columns. Those of trees, plans, findings of doctor and
// tables of top have such tests in their packages.
func TestTextFitsTheTerminal(t *testing.T) {
	crd := func(name string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{}}
		o.SetName(name)
		return o
	}
	verbs := map[string]func(width int) string{
		"run-check": func(width int) string {
			return checkText(server.Findings{
				Installs: []install.Step{
					{Action: install.Create, Wanted: crd("resourcegraphdefinitions.kro.run")},
					{Action: install.Unchanged, Wanted: crd("bindings.espalier.dev")},
					{Action: install.KeepForeign, Wanted: crd("compositions.apiextensions.crossplane.io"), MissingVersions: []string{"v1beta1"}, MissingFields: []string{"spec.publishConnectionDetailsWithStoreConfigRef", "spec.writeConnectionSecretsToNamespace"}},
					{Action: install.Refused, Wanted: crd("compositeresourcedefinitions.apiextensions.crossplane.io"), Problem: "another program installed it, and it does not serve version v1, which the controllers read; remove that program, or update it"},
				},
				Notes: []string{"Crossplane is running: its controllers and those of Espalier would both reconcile composite resources, and overwrite what the other one writes"},
			}, width)
		},
		"uninstall": func(width int) string {
			return remainingText(uninstall.Remaining{
				Namespace: "espalier-system", Helm: "espalier", CRDs: 14, Conversions: 2,
				Kinds: []uninstall.Kind{
					{Kind: "Binding.espalier.dev", Objects: 112, Finalizers: 112},
					{Kind: "CompositeResourceDefinition.apiextensions.crossplane.io", Objects: 3},
					{Kind: "ResourceGraphDefinition.kro.run", Objects: 9, Finalizers: 9},
					{Kind: "WebApp.kro.run", Objects: 104, Finalizers: 104, Deleting: 1},
				},
				Unreadable: []string{`Database.sql.example.org: conversion webhook for sql.example.org/v1, Kind=Database failed: Post "https://converter.databases.svc:443/convert?timeout=30s": connect: connection refused`},
				Others:     []string{"Role observability/espalier-dashboards", "StatefulSet espalier-system/espalier"},
				Unsearched: []string{"databases.sql.example.org"},
			}, width)
		},
		"aws-types": func(width int) string {
			return typesTable([]typeRow{
				{Type: "AWS::EC2::VPC", Kind: "VPC", Group: "ec2.aws.espalier.dev", Updatable: true, Listable: true, Taggable: true, Identifier: "VpcId", Regions: 37},
				{Type: "AWS::EC2::VPCEndpointConnectionNotification", Kind: "VPCEndpointConnectionNotification", Group: "ec2.aws.espalier.dev", Updatable: true, Listable: true, Identifier: "VPCEndpointConnectionNotificationId", Regions: 37},
				{Type: "AWS::EC2::VPNConnectionRoute", Kind: "VPNConnectionRoute", Group: "ec2.aws.espalier.dev", Listable: true, Identifier: "DestinationCidrBlock|VpnConnectionId", Regions: 37},
			}, width)
		},
		"aws-activations": func(width int) string {
			return activationsTable([]activationRow{{
				Name: "platform", Served: 1, Kinds: 3, Ready: "kinds are being installed",
				States: []resource.ActivatedType{
					{Type: "AWS::EC2::VPC", Kind: "VPC.ec2.aws.espalier.dev", State: "Served"},
					{Type: "AWS::EC2::VPCEndpointConnectionNotification", Kind: "VPCEndpointConnectionNotification.ec2.aws.espalier.dev", State: "Installing"},
					{Type: "AWS::S3::Bucket", Kind: "Bucket.s3.aws.espalier.dev", State: "Forbidden", Message: `customresourcedefinitions.apiextensions.k8s.io is forbidden: User "system:serviceaccount:espalier-system:espalier" cannot create resource "customresourcedefinitions"`},
				},
			}}, width)
		},
		"test": func(width int) string {
			return testsText([]*definitionTest{
				{path: "platform/tests/webapp/replicas.test.yaml", steps: 1, report: deftest.Report{Name: "the deployment has as many replicas as the instance asks for, and never none"}},
				{path: "platform/tests/webapp/ingress.test.yaml", steps: 3, report: deftest.Report{Name: "an ingress exists with a host only", Failures: []deftest.Failure{
					{Step: "an instance without a host", Message: "Ingress default/shop exists, although it should not: the condition of node ingress is schema.spec.host != ''"},
					{Step: "expected", Message: "the result is another:\n--- ingress.expected.yaml\n+++ result\n@@ -1,1 +1,1 @@\n-  annotations: {nginx.ingress.kubernetes.io/configuration-snippet: 'more_set_headers \"X: 1\";   return'}\n+  annotations: {}"},
				}}},
			}, width) + diag.WrapLines(deftest.CoverageText([]deftest.KindCoverage{
				{Kind: "WebApp", Reached: 5, Total: 6, Missing: []string{"spec.resources[2].template.spec.rules[0].host: schema.spec.host != '' && schema.spec.ingress.enabled is never true"}},
			}), width)
		},
		"xpkg-list": func(width int) string {
			return installedPackages{
				{Kind: "Configuration", Name: "platform", Version: "v1.4.0", Revision: 12, Installed: "True", Healthy: "True"},
				{Kind: "Function", Name: "crossplane-contrib-function-auto-ready", Version: "v0.7.0", Revision: 1, CurrentRevision: "crossplane-contrib-function-auto-ready-a1f5b07c0c9d", Installed: "True", Healthy: "False", Cause: "crossplane-contrib-function-auto-ready-a1f5b07c0c9d: Deployment crossplane-contrib-function-auto-ready-a1f5b07c0c9d has no available pod yet"},
				{Kind: "Provider", Name: "sql", Package: "registry.example.org/team/sql:v0.9.0", Version: "v0.9.0", Installed: "False", Healthy: "Unknown", Cause: "registry.example.org/team/sql:v0.9.0: the registry needs other credentials"},
			}.text(width)
		},
		"xpkg-inspect": func(width int) string { return aLargePackage().text(width) },
		"rollback": func(width int) string {
			text := ""
			for _, p := range []rollbackPlan{{To: 2, From: 3, Serving: 3}, {To: 2, From: 3, Serving: 2, Rolling: 3}, {To: 3, From: 3, Serving: 3}, {End: true}} {
				text += p.sentence("ResourceGraphDefinition", "payments-warehouse")
			}
			return diag.WrapLines(text, width)
		},
		"import": func(width int) string {
			text := ""
			for _, s := range []backup.Step{
				{Verb: backup.Create, Key: object.Key{Group: "kro.run", Kind: "WebApp", Namespace: "prod", Name: "shop"}},
				{Verb: backup.Create, Key: object.Key{Group: "espalier.dev", Kind: "Binding", Name: "ec2.aws.espalier.dev.vpc.prod.main"}, Detail: "of the external resource vpc-0fb1cf0a5c4a8e7d2 in account 123456789012, region eu-central-1"},
			} {
				text += s.String() + "\n"
			}
			return diag.WrapLines(text, width)
		},
		"delete": func(width int) string {
			root := testkit.Parse(t, goingTop)[0]
			now := root.GetDeletionTimestamp().Add(90 * time.Second)
			r := deletionRequest{instance: instance{target: reader.Target{Mapping: &meta.RESTMapping{GroupVersionKind: mapKind}, Namespace: "prod", Name: "payments-reconciliation-warehouse-production-eu-central-1"}}}
			return r.message(root, false, now, width) + r.message(root, true, now, width)
		},
		"hold": func(width int) string {
			return diag.WrapLines(holdNote("import-4x7q", "import of export 4x7q from backup.yaml runs on host ops-1 since 12:00, and ends by itself")+holdNote("maintenance", ""), width)
		},
		"error": func(width int) string {
			err := errors.Join(errors.New("webapp.yaml:12:7: spec.resources[0].template.data.size: undefined field 'sise'; did you mean 'size'?"), errors.New("web.yaml: it has no kind"))
			return diag.WrapLines(fmt.Sprintf("espalier: %v\n", err), width)
		},
	}
	for verb, text := range verbs {
		t.Run(verb, func(t *testing.T) {
			for _, width := range []int{80, 120} {
				got := text(width)
				if verb != "test" { // whose comparisons are as long as the lines of files
					golden.CheckWidth(t, verb, got, width)
				}
				golden.Compare(t, fmt.Sprintf("testdata/widths/%s-%d.txt", verb, width), got)
			}
		})
	}
}

// TestHelpFits checks the help of all commands where it is not printed on a terminal.
func TestHelpFits(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		var text strings.Builder
		cmd.SetOut(&text)
		if err := cmd.Help(); err != nil {
			t.Error(err)
		}
		golden.CheckWidth(t, cmd.CommandPath(), text.String(), maxHelpWidth)
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(newRoot())
}

// TestDeletionOnANarrowScreen checks that no line is longer than the screen, which would move the others.
func TestDeletionOnANarrowScreen(t *testing.T) {
	for _, width := range []int{40, 80, 120} {
		m := screenOf(t, width, 24)
		m.title = "DataWarehousePlatform team-payments-production-europe/payments-reconciliation-warehouse-production-eu-central-1"
		for i, line := range strings.Split(m.View().Content, "\n") {
			if n := lipgloss.Width(line); n > width {
				t.Errorf("line %d has %d columns of %d: %q", i, n, width, line)
			}
		}
		if text := strings.Join(strings.Fields(m.last()), " "); !strings.Contains(text, "held by finalizer example.com/guard") {
			t.Errorf("with %d columns it does not say what blocks the deletion:\n%s", width, text)
		}
		now := observe.Age(time.Since(m.begun))
		if text := m.View().Content; width > 40 && !strings.Contains(text, now) {
			t.Errorf("the title has no age:\n%s", text)
		}
	}
}
