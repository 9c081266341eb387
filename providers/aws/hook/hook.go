// Package hook contains what single resource types need beyond the Cloud Control API, one file each: connection
// details, steps before a deletion, reads of many resources at once, and handlers for types that Cloud Control does not
// serve. Package policy has the IAM actions that hooks need. Begin with Hooks and Handler.
package hook

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// Annotations of managed resources, which allow what destroys more than the resource itself, or keep a copy
// of it.
const (
	// AnnotationEmpty allows to empty a resource before it is deleted: "true" removes all objects of a bucket with
	// their versions, and what other clients have attached to an IAM role.
	AnnotationEmpty = "aws.espalier.dev/empty-before-delete"
	// AnnotationFinalSnapshot is the name of a snapshot that is taken before a database or a volume is deleted.
	AnnotationFinalSnapshot = "aws.espalier.dev/final-snapshot"
)

// Resource is a resource as it was last read.
type Resource struct {
	// Identifier is its primary identifier, as Cloud Control writes it.
	Identifier string
	Properties map[string]any
	// Busy reports whether the service refuses changes for now, because the resource is being created, changed or
	// deleted. Only a Handler sets it.
	Busy bool
}

// Target is a resource with its managed resource.
type Target struct {
	Resource
	// Account is the number of the resource's account.
	Account string
	// Region is the region that the provider configuration names.
	Region string
	// Annotations are the managed resource's.
	Annotations map[string]string
	// Deleted is when the deletion of the managed resource was requested; zero if it was not.
	Deleted time.Time
}

// Hooks are what one type needs. Each field is optional.
type Hooks struct {
	// Connection returns the connection details of a resource that can be used, from its properties alone.
	Connection func(Target) map[string][]byte
	// ReadConnection returns the connection details that the properties lack. It makes one request, and is called only
	// if there is a Secret for them.
	ReadConnection func(context.Context, aws.Config, Target) (map[string][]byte, error)
	// Step returns the part of a change that AWS accepts now, if it makes the change only in steps. present and
	// wanted are properties, as read and as they are to be; it does not change them.
	Step func(ctx context.Context, read Reader, present, wanted map[string]any) Step
	// BeforeDelete is called before each request to delete a resource, and may be called again after a crash.
	// It does what AWS requires before, as far as the annotations allow it, a part of it in each call. waiting
	// says what is not finished; it is empty when the resource can be deleted.
	BeforeDelete func(context.Context, aws.Config, Target) (waiting string, err error)
	// Normalize returns the properties of a resource, wanted or read, so equal ones are the same. It does not change
	// its argument.
	Normalize func(map[string]any) map[string]any
	// ReadMany reads at most MaxReadMany resources by their identifiers with few requests. A resource that
	// is not in the result has to be read by itself before it counts as absent: the reads of a service may
	// lag behind its changes. With a response.TooLargeError, fewer resources can be read.
	ReadMany func(ctx context.Context, config aws.Config, identifiers []string) (map[string]Resource, error)
	// Unread are the properties that a read returns and ReadMany does not.
	Unread []string
	// Handler serves the type instead of Cloud Control.
	Handler Handler
	// Asynchronous: calls of the Handler that change something return before that is done. It is when a read
	// shows that the resource is not busy any more, or does not exist.
	Asynchronous bool
}

// Reader reads the properties of another resource.
type Reader func(ctx context.Context, typeName, identifier string) (map[string]any, error)

// Step is the next part of a change.
type Step struct {
	// Wanted are the properties as the next update sets them; nil for all that are wanted.
	Wanted map[string]any
	// Progress says which part it is; empty if it is the only one.
	Progress string
	// Refused is why something that is wanted is not in Wanted. It is reported when nothing else is to be changed.
	Refused string
}

// MaxReadMany is how many identifiers a call of ReadMany takes: as many as a filter of EC2.
const MaxReadMany = 200

// Handler manages the resources of a type that Cloud Control does not serve, with the properties of the type's schema
// in package schema. An identifier consists of the values of the schema's primary identifier. A call is done when it
// returns, unless the hooks say otherwise, and makes as few requests as possible. Errors are the SDK's, with the
// service's code as a smithy.APIError.
type Handler interface {
	// Identifier returns the identifier that the properties determine; empty if the service assigns it. With
	// one, Create may be repeated: it fails if the resource exists with other properties. If the schema has tags
	// that a creation sets, a resource carries the mark of its managed resource, and Create may fail for any
	// that exists.
	Identifier(desired map[string]any) string
	// List returns the identifiers of the resources with the properties of model, including the ones that the service
	// needs for a list.
	List(ctx context.Context, config aws.Config, model map[string]any) ([]string, error)
	// Create creates a resource. earlier is what List returned before the intent of this creation was
	// stored, and is the same each time the creation is repeated. If the answer of an earlier call may have
	// been lost, Create returns a LostError, and creates nothing.
	Create(ctx context.Context, config aws.Config, desired map[string]any, earlier []string) (Created, error)
	// Read returns a resource; nil if it does not exist.
	Read(ctx context.Context, config aws.Config, identifier string) (*Resource, error)
	// Update makes the properties of a resource those that are desired. The tags, if they are among them, are all
	// that the resource is to have. A repeated call continues one that has ended in between.
	Update(ctx context.Context, config aws.Config, identifier string, desired map[string]any) error
	// Delete deletes a resource. That it does not exist is no error.
	Delete(ctx context.Context, config aws.Config, identifier string) error
}

// Created is a resource that was created.
type Created struct {
	Resource
	// Connection are connection details that only the creation returns. They are stored in the connection
	// secret before anything else, or are lost.
	Connection map[string][]byte
}

// LostError is returned for a creation that may have succeeded without its answer being received. A user has to decide,
// by one of the commands in the message.
type LostError struct {
	// Candidates are the identifiers of what has been created afterwards.
	Candidates []string
	Message    string
}

// Error returns the message.
func (e *LostError) Error() string { return e.Message }

// For returns the hooks of a type, empty ones for most.
func For(typeName string) Hooks { return all[typeName] }

// Handled returns the names of the types that have a handler here, sorted.
func Handled() []string {
	var names []string
	for name := range all {
		if all[name].Handler != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Types returns the names of the types with hooks, sorted.
func Types() []string { return slices.Sorted(maps.Keys(all)) }

// all are the hooks by type.
var all = map[string]Hooks{
	"AWS::AmazonMQ::Broker": {Connection: brokerConnection},
	"AWS::DSQL::Cluster":    {Connection: fields("endpoint", "Endpoint")},
	"AWS::DocDB::DBCluster": {Handler: docDBClusters{}, Asynchronous: true,
		Connection: fields("endpoint", "Endpoint", "readerEndpoint", "ReadEndpoint", "port", "Port", "username", "MasterUsername", "secretArn",
			"MasterUserSecretArn"), BeforeDelete: snapshotDocDBCluster},
	"AWS::DocDB::DBInstance":             {Handler: docDBInstances{}, Asynchronous: true, Connection: fields("endpoint", "Endpoint", "port", "Port")},
	"AWS::DocDBElastic::Cluster":         {Connection: fields("endpoint", "ClusterEndpoint", "username", "AdminUserName")},
	"AWS::EC2::InternetGateway":          {ReadMany: readInternetGateways},
	"AWS::EC2::NatGateway":               {ReadMany: readNATGateways, Unread: natGatewayUnread},
	"AWS::EC2::NetworkAclEntry":          {Handler: networkACLEntries{}},
	"AWS::EC2::RouteTable":               {ReadMany: readRouteTables},
	"AWS::EC2::SecurityGroup":            {ReadMany: readSecurityGroups, Normalize: normalizeSecurityGroup},
	"AWS::EC2::SecurityGroupEgress":      {Normalize: normalizeRule},
	"AWS::EC2::SecurityGroupIngress":     {Normalize: normalizeRule},
	"AWS::EC2::Subnet":                   {ReadMany: readSubnets, Unread: subnetUnread},
	"AWS::EC2::VPC":                      {ReadMany: readVPCs, Unread: vpcUnread},
	"AWS::EC2::Volume":                   {BeforeDelete: snapshotVolume},
	"AWS::ECR::Repository":               {Connection: fields("endpoint", "RepositoryUri", "arn", "Arn")},
	"AWS::EKS::Cluster":                  {Connection: clusterConnection, Step: stepClusterVersion},
	"AWS::EKS::Nodegroup":                {Step: stepNodegroupVersion},
	"AWS::ElastiCache::CacheCluster":     {Connection: cacheClusterConnection},
	"AWS::ElastiCache::ReplicationGroup": {Connection: replicationGroupConnection},
	"AWS::ElastiCache::ServerlessCache": {Connection: fields("endpoint", "Endpoint.Address", "port", "Endpoint.Port", "readerEndpoint",
		"ReaderEndpoint.Address", "readerPort", "ReaderEndpoint.Port")},
	"AWS::IAM::AccessKey":                   {Handler: accessKeys{}},
	"AWS::IAM::Role":                        {BeforeDelete: detachRole},
	"AWS::MSK::Cluster":                     {Connection: fields("arn", "Arn"), ReadConnection: readBrokers},
	"AWS::MSK::ServerlessCluster":           {Connection: fields("arn", "Arn"), ReadConnection: readBrokers},
	"AWS::MemoryDB::Cluster":                {Connection: fields("endpoint", "ClusterEndpoint.Address", "port", "ClusterEndpoint.Port", "tls", "TLSEnabled")},
	"AWS::NeptuneGraph::Graph":              {Connection: fields("endpoint", "Endpoint")},
	"AWS::Neptune::DBCluster":               {Connection: fields("endpoint", "Endpoint", "readerEndpoint", "ReadEndpoint", "port", "Port")},
	"AWS::Neptune::DBInstance":              {Connection: fields("endpoint", "Endpoint", "port", "Port")},
	"AWS::OpenSearchServerless::Collection": {Connection: fields("endpoint", "CollectionEndpoint", "arn", "Arn")},
	"AWS::OpenSearchService::Domain":        {Connection: domainConnection},
	"AWS::RDS::DBCluster":                   {Connection: dbClusterConnection, BeforeDelete: snapshotDBCluster},
	"AWS::RDS::DBClusterEndpoint":           {Connection: fields("endpoint", "Endpoint")},
	"AWS::RDS::DBInstance":                  {Connection: dbInstanceConnection, BeforeDelete: snapshotDBInstance},
	"AWS::RDS::DBProxy":                     {Connection: fields("endpoint", "Endpoint")},
	"AWS::RDS::DBProxyEndpoint":             {Connection: fields("endpoint", "Endpoint")},
	"AWS::RDS::DBShardGroup":                {Connection: fields("endpoint", "Endpoint")},
	"AWS::RDS::GlobalCluster":               {Connection: fields("endpoint", "GlobalEndpoint.Address")},
	"AWS::Redshift::Cluster": {Connection: fields("endpoint", "Endpoint.Address", "port", "Endpoint.Port", "username", "MasterUsername",
		"database", "DBName", "secretArn", "MasterPasswordSecretArn")},
	"AWS::RedshiftServerless::Workgroup": {Connection: fields("endpoint", "Workgroup.Endpoint.Address", "port", "Workgroup.Endpoint.Port")},
	"AWS::Redshift::EndpointAccess":      {Connection: fields("endpoint", "Address", "port", "Port")},
	"AWS::S3::Bucket":                    {Connection: bucketConnection, BeforeDelete: emptyBucket},
	"AWS::SNS::Topic":                    {Connection: fields("arn", "TopicArn")},
	"AWS::SQS::Queue":                    {Connection: fields("endpoint", "QueueUrl", "arn", "Arn")},
	"AWS::SecretsManager::Secret":        {Connection: fields("arn", "Id")},
	"AWS::Timestream::InfluxDBCluster": {Connection: fields("endpoint", "Endpoint", "readerEndpoint", "ReaderEndpoint", "port", "Port", "secretArn",
		"InfluxAuthParametersSecretArn")},
	"AWS::Timestream::InfluxDBInstance": {Connection: fields("endpoint", "Endpoint", "port", "Port", "secretArn", "InfluxAuthParametersSecretArn")},
}
