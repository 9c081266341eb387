package resourcetype_test

import (
	"slices"
	"testing"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

func TestSecretsAreFoundByName(t *testing.T) {
	cases := map[string]bool{
		"MasterUserPassword": true, "ClientSecret": true, "AuthToken": true, "PrivateKey": true, "ApiKeyValue": true,
		"SecretString": true, "AppServerPrivateKey": true,
		"ClientToken": false, "SecretArn": false, "PublicKey": false, "TokenType": false, "PasswordLength": false,
		"RemovePrivateKey": false, "*": false,
	}
	for name, want := range cases {
		if got := resourcetype.IsSecret(resourcetype.Path{"Login", name}); got != want {
			t.Errorf("%s: got %t", name, got)
		}
	}
	if resourcetype.IsSecret(nil) {
		t.Error("the empty path is a secret")
	}
}

const withSecrets = `{
	"typeName": "AWS::Test::Broker",
	"primaryIdentifier": ["/properties/Name"],
	"definitions": {
		"User": {"type": "object", "properties": {
			"Name": {"type": "string"}, "Password": {"type": "string"}, "Friend": {"$ref": "#/definitions/User"},
			"Keys": {"type": "object", "patternProperties": {".*": {"type": "object", "properties": {"ApiKey": {"type": "string"}}}}},
			"SecretNames": {"type": "array", "items": {"type": "string"}}}}
	},
	"properties": {
		"Name": {"type": "string"},
		"Token": {"type": "string"},
		"UserData": {"type": "string"},
		"Mode": {"type": "string", "enum": ["A", "B"]},
		"Users": {"type": "array", "items": {"$ref": "#/definitions/User"}},
		"Login": {"type": "object", "oneOf": [
			{"properties": {"Basic": {"$ref": "#/definitions/User"}}}, {"properties": {"ApiKey": {"type": "string"}}}]},
		"State": {"type": "object", "properties": {"Token": {"type": "string"}}}
	},
	"readOnlyProperties": ["/properties/State"],
	"writeOnlyProperties": ["/properties/UserData", "/properties/Mode", "/properties/Users/*/Password",
		"/properties/Login", "/properties/State/Token"]
}`

func TestSecretPathsAreWriteOnlyStrings(t *testing.T) {
	broker, err := resourcetype.Parse([]byte(withSecrets))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, path := range resourcetype.SecretPaths(broker) {
		got = append(got, path.String())
	}
	want := []string{"Login.ApiKey", "Login.Basic.Keys.*.ApiKey", "Login.Basic.Password", "UserData", "Users.*.Password"}
	if !slices.Equal(got, want) {
		t.Errorf("want %v, got %v", want, got)
	}
}
