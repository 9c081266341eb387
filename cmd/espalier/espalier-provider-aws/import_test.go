package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// cloudControl serves reads of resources, by type and identifier.
func cloudControl(t *testing.T, resources map[string]map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ TypeName, Identifier string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		type description struct{ Identifier, Properties string }
		of := resources[in.TypeName]
		switch operation := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "CloudApiService."); operation {
		case "ListResources":
			var all []description
			for identifier := range of {
				all = append(all, description{Identifier: identifier, Properties: "{}"})
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"ResourceDescriptions": all})
		case "GetResource":
			if of[in.Identifier] == "" {
				w.WriteHeader(http.StatusBadRequest)
				_ = json.NewEncoder(w).Encode(map[string]any{"__type": "ResourceNotFoundException", "Message": "not there"})
				return
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"ResourceDescription": description{in.Identifier, of[in.Identifier]}})
		default:
			t.Errorf("an import calls %s", operation)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestImportFromAWS(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	endpoint := cloudControl(t, map[string]map[string]string{
		"AWS::EC2::VPC": {"vpc-1": `{"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/16"}`},
		"AWS::EC2::Subnet": {
			"subnet-1": `{"SubnetId": "subnet-1", "VpcId": "vpc-1", "Tags": [{"Key": "env", "Value": "prod"}]}`,
			"subnet-2": `{"SubnetId": "subnet-2", "VpcId": "vpc-9"}`,
		},
	})
	cases := map[string]struct {
		args       []string
		code       int
		want, errs string
	}{
		"ByIdentifier":           {args: []string{"AWS::EC2::VPC", "vpc-1"}, want: "kind: VPC\n"},
		"Missing":                {args: []string{"AWS::EC2::VPC", "vpc-2"}, code: failed, errs: "there is no AWS::EC2::VPC vpc-2"},
		"ByTagWithItsVPC":        {args: []string{"AWS::EC2::Subnet", "--tag", "env=prod", "--tree"}, want: "    VpcIdRef:\n      name: vpc-1\n"},
		"WithoutTheVPC":          {args: []string{"AWS::EC2::Subnet", "--tag", "env=prod"}, want: "    VpcId: vpc-1\n"},
		"ByBoth":                 {args: []string{"AWS::EC2::Subnet", "subnet-1", "--tag", "env=prod"}, want: "kind: Subnet\n"},
		"ByOneWithoutIt":         {args: []string{"AWS::EC2::Subnet", "subnet-1", "subnet-2", "--tag", "env=prod"}, code: failed, errs: "AWS::EC2::Subnet subnet-2 does not have the tags env=prod"},
		"OfAnotherTag":           {args: []string{"AWS::EC2::Subnet", "--tag", "env=dev"}, code: failed, errs: "no AWS::EC2::Subnet has the tags env=dev"},
		"TooMany":                {args: []string{"AWS::EC2::Subnet", "--all", "--limit", "1"}, code: failed, errs: "more than 1 resources"},
		"WhatIsNotThere":         {args: []string{"AWS::EC2::Subnet", "subnet-2", "--tree"}, want: "    VpcId: vpc-9\n", errs: "AWS::EC2::VPC vpc-9, which is left out"},
		"WithFullPolicies":       {args: []string{"AWS::EC2::VPC", "vpc-1", "--full", "--scope", "Cluster", "--provider-config", "ProviderConfig/prod", "--name", "main"}, want: "kind: ClusterVPC\n"},
		"OfATypeToListWith":      {args: []string{"AWS::EKS::Nodegroup", "--all"}, code: failed, errs: `set --list-with '{"ClusterName": "…"}', or name identifiers`},
		"OfATypeWithoutTags":     {args: []string{"AWS::EC2::VPCCidrBlock", "--tag", "a=b"}, code: failed, errs: "AWS::EC2::VPCCidrBlock have no tags"},
		"OfATypeThatIsNotListed": {args: []string{"AWS::IAM::RolePolicy", "--all"}, code: failed, errs: "name their identifiers; an identifier is PolicyName|RoleName"},
		"PartsOfAnIdentifier":    {args: []string{"AWS::EC2::VPCCidrBlock", "vpc-1"}, code: failed, errs: "in this account and region; an identifier is Id|VpcId"},
		"WithWhatIsNotJSON":      {args: []string{"AWS::EKS::Nodegroup", "--all", "--list-with", "ClusterName=main"}, code: failed, errs: "--list-with takes a JSON object"},
		"OfAPattern":             {args: []string{"AWS::EC2::*", "--tag", "a=b"}, code: misused, errs: "one resource type, not the pattern AWS::EC2::*"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t, append([]string{"aws", "import", "--endpoint", endpoint, "--region", "eu-central-1"}, tc.args...)...)
			if code != tc.code || !strings.Contains(out, tc.want) || !strings.Contains(errs, tc.errs) {
				t.Errorf("exit code %d, %s%s", code, out, errs)
			}
		})
	}
}

func TestImportWithoutAnAccount(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", missing)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", missing)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	cases := map[string]struct {
		args []string
		code int
		want string
	}{
		"WithoutAnIdentity": {[]string{"--region", "eu-central-1"}, failed, "no credentials from the environment"},
		"WithoutARegion":    {nil, misused, "--region"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, errs := call(t, append([]string{"aws", "import", "AWS::EC2::VPC", "x"}, tc.args...)...)
			if code != tc.code || !strings.Contains(errs, tc.want) {
				t.Errorf("exit code %d, want %d with %q; %s%s", code, tc.code, tc.want, out, errs)
			}
		})
	}
}

// TestDocumentedImports runs the commands of help texts.
func TestDocumentedImports(t *testing.T) {
	endpoint := cloudControl(t, map[string]map[string]string{
		"AWS::EC2::VPC": {"vpc-0123456789abcdef0": `{"VpcId": "vpc-0123456789abcdef0", "CidrBlock": "10.0.0.0/16"}`},
		"AWS::EC2::Subnet": {
			"subnet-1": `{"SubnetId": "subnet-1", "VpcId": "vpc-0123456789abcdef0", "Tags": [{"Key": "env", "Value": "prod"}]}`,
			"subnet-2": `{"SubnetId": "subnet-2", "VpcId": "vpc-9"}`,
		},
		"AWS::EKS::Nodegroup": {"main|workers": `{"Id": "main|workers", "ClusterName": "main", "NodegroupName": "workers"}`},
		"AWS::EC2::VPCCidrBlock": {
			"vpc-cidr-assoc-0123456789abcdef0|vpc-0123456789abcdef0": `{"Id": "vpc-cidr-assoc-0123456789abcdef0", "VpcId": "vpc-0123456789abcdef0"}`,
		},
	})
	cases := map[string][]string{
		"aws import AWS::EC2::VPC vpc-0123456789abcdef0 --region eu-central-1": {"kind: VPC\n", "crossplane.io/external-name: vpc-0123456789abcdef0"},
		"aws import AWS::EC2::Subnet --tag env=prod --tree -n prod": {
			"kind: VPC\n", "kind: Subnet\n", "namespace: prod\n", "VpcIdRef:\n      name: vpc-0123456789abcdef0\n", "- Observe\n",
		},
		"aws import AWS::EC2::Subnet --tag env=prod --tree -n prod --full":               {"kind: Subnet\n", "VpcIdRef:\n      name: vpc-0123456789abcdef0\n"},
		"aws import AWS::EKS::Nodegroup --all --list-with '{\"ClusterName\": \"main\"}'": {"kind: Nodegroup\n", "crossplane.io/external-name: main|workers\n"},
		"aws import AWS::EC2::VPCCidrBlock 'vpc-cidr-assoc-0123456789abcdef0|vpc-0123456789abcdef0'": {
			"kind: VPCCidrBlock\n", "crossplane.io/external-name: vpc-cidr-assoc-0123456789abcdef0|vpc-0123456789abcdef0\n",
		},
	}
	for text, want := range cases {
		t.Run(text, func(t *testing.T) {
			cmd := command(t, program, text)
			cmd.Env = append(cmd.Env, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_SESSION_TOKEN=", "AWS_PROFILE=", "AWS_REGION=eu-central-1",
				"AWS_ENDPOINT_URL="+endpoint)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Error(err)
			}
			for _, part := range want {
				if !strings.Contains(string(out), part) {
					t.Errorf("it does not print %q:\n%s", part, out)
				}
			}
		})
	}
}
