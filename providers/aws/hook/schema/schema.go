// Package schema contains the schemas of the resource types that hooks serve instead of the Cloud Control API. They are
// AWS's schemas with the identifiers and verbs of the handlers here; DocumentDB's are written from the documentation of
// its API.
//
// Pure: it decides from values alone.
package schema

import (
	"embed"
	"strings"

	"github.com/espalier-dev/espalier/providers/aws/resourcetype"
)

//go:embed *.json
var files embed.FS

// Names returns the names of the types, sorted.
func Names() []string {
	return []string{"AWS::DocDB::DBCluster", "AWS::DocDB::DBInstance", "AWS::EC2::NetworkAclEntry", "AWS::IAM::AccessKey"}
}

// Raw returns the schema of a type as JSON; nil if there is no such type.
func Raw(name string) []byte {
	raw, err := files.ReadFile(strings.ReplaceAll(name, "::", "-") + ".json")
	if err != nil {
		return nil // the file does not exist: all that exist are embedded
	}
	return raw
}

// Get returns a type; nil if there is no such type.
func Get(name string) (*resourcetype.Type, error) {
	raw := Raw(name)
	if raw == nil {
		return nil, nil
	}
	return resourcetype.Parse(raw)
}
