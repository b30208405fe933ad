// Credentials of object stores from DuckDB's secrets, in the words of the core's client.
#include "pensieve_shim.hpp"

#include "duckdb/catalog/catalog_transaction.hpp"
#include "duckdb/main/client_context.hpp"
#include "duckdb/main/secret/secret.hpp"
#include "duckdb/main/secret/secret_manager.hpp"

namespace pensieve {

namespace {

//! Our own type of secret, for sessions without the extensions that bring `s3`, `gcs` and `azure`.
constexpr const char *SECRET_TYPE = "pensieve";

const vector<string> &Parameters() {
	static const vector<string> names {"key_id",       "secret",      "session_token",
	                                   "region",       "endpoint",    "url_style",
	                                   "account_name", "account_key", "service_account_key"};
	return names;
}

unique_ptr<BaseSecret> CreateSecret(ClientContext &, CreateSecretInput &input) {
	auto scope = input.scope;
	if (scope.empty()) {
		scope = {"s3://", "s3a://", "gs://", "gcs://", "az://", "azure://", "abfs://", "abfss://"};
	}
	auto result = make_uniq<KeyValueSecret>(scope, input.type, input.provider, input.name);
	for (auto &name : Parameters()) {
		result->TrySetValue(Identifier(name), input);
	}
	result->TrySetValue("use_ssl", input);
	result->redact_keys = {"secret", "session_token", "account_key", "service_account_key"};
	return std::move(result);
}

string TextOf(const KeyValueSecret &secret, const char *name) {
	auto value = secret.TryGetValue(Identifier(name));
	return value.IsNull() ? string() : value.ToString();
}

void Add(string &json, const char *name, const string &value) {
	if (!value.empty()) {
		json += (json.size() > 1 ? "," : "") + QuoteJson(name) + ":" + QuoteJson(value);
	}
}

bool Truth(const KeyValueSecret &secret, const char *name, bool otherwise) {
	auto value = secret.TryGetValue(Identifier(name));
	return value.IsNull() ? otherwise : BooleanValue::Get(value.DefaultCastAs(LogicalType::BOOLEAN));
}

string S3Configuration(const KeyValueSecret &secret, const string &path) {
	string json = "{";
	auto key = TextOf(secret, "key_id");
	Add(json, "aws_access_key_id", key);
	Add(json, "aws_secret_access_key", TextOf(secret, "secret"));
	Add(json, "aws_session_token", TextOf(secret, "session_token"));
	Add(json, "aws_region", TextOf(secret, "region"));
	if (key.empty() && secret.GetType() != SECRET_TYPE) {
		// httpfs signs nothing then
		Add(json, "aws_skip_signature", "true");
	}
	if (Truth(secret, "requester_pays", false)) {
		Add(json, "aws_request_payer", "true");
	}
	auto kms = TextOf(secret, "kms_key_id");
	if (!kms.empty()) {
		Add(json, "aws_server_side_encryption", "aws:kms");
		Add(json, "aws_sse_kms_key_id", kms);
	}
	auto endpoint = TextOf(secret, "endpoint");
	auto style = StringUtil::Lower(TextOf(secret, "url_style"));
	if (endpoint == "s3.amazonaws.com") {
		// what httpfs has for no endpoint; the client knows the one of the region
		endpoint.clear();
	}
	if (!endpoint.empty()) {
		if (!StringUtil::Contains(endpoint, "://")) {
			endpoint = (Truth(secret, "use_ssl", true) ? "https://" : "http://") + endpoint;
		}
		if (style == "vhost") {
			// the client takes an endpoint of this style for that of the bucket
			auto host = endpoint.find("://") + 3;
			auto start = path.find("://") + 3;
			endpoint.insert(host, path.substr(start, path.find('/', start) - start) + ".");
		}
		Add(json, "aws_endpoint", endpoint);
		if (StringUtil::StartsWith(endpoint, "http://")) {
			Add(json, "aws_allow_http", "true");
		}
	}
	if (!style.empty()) {
		Add(json, "aws_virtual_hosted_style_request", style == "path" ? "false" : "true");
	}
	return json + "}";
}

string GcsConfiguration(const KeyValueSecret &secret) {
	string json = "{";
	Add(json, "google_service_account_key", TextOf(secret, "service_account_key"));
	auto key = TextOf(secret, "key_id");
	if (json.size() == 1 && !key.empty()) {
		// what httpfs keeps for gs:// is a key for the interface that is compatible with S3
		Add(json, "s3_compatible", "true");
		Add(json, "aws_access_key_id", key);
		Add(json, "aws_secret_access_key", TextOf(secret, "secret"));
		Add(json, "aws_session_token", TextOf(secret, "session_token"));
		auto region = TextOf(secret, "region");
		Add(json, "aws_region", region.empty() ? "auto" : region);
		auto endpoint = TextOf(secret, "endpoint");
		endpoint = endpoint.empty() ? "storage.googleapis.com" : endpoint;
		if (!StringUtil::Contains(endpoint, "://")) {
			endpoint = (Truth(secret, "use_ssl", true) ? "https://" : "http://") + endpoint;
		}
		Add(json, "aws_endpoint", endpoint);
		Add(json, "aws_virtual_hosted_style_request", "false");
		if (StringUtil::StartsWith(endpoint, "http://")) {
			Add(json, "aws_allow_http", "true");
		}
	}
	return json.size() > 1 ? json + "}" : string();
}

string AzureConfiguration(const KeyValueSecret &secret) {
	string json = "{";
	auto name = TextOf(secret, "account_name");
	auto key = TextOf(secret, "account_key");
	string endpoint;
	string signature;
	string protocol = "https";
	string suffix;
	for (auto &part : StringUtil::Split(TextOf(secret, "connection_string"), ';')) {
		auto equals = part.find('=');
		if (equals == string::npos) {
			continue;
		}
		auto field = StringUtil::Lower(part.substr(0, equals));
		auto value = part.substr(equals + 1);
		if (field == "accountname") {
			name = value;
		} else if (field == "accountkey") {
			key = value;
		} else if (field == "blobendpoint") {
			endpoint = value;
		} else if (field == "sharedaccesssignature") {
			signature = value;
		} else if (field == "defaultendpointsprotocol") {
			protocol = value;
		} else if (field == "endpointsuffix") {
			suffix = value;
		}
	}
	if (endpoint.empty() && !suffix.empty() && !name.empty()) {
		endpoint = protocol + "://" + name + ".blob." + suffix;
	}
	StringUtil::RTrim(endpoint, "/");
	Add(json, "azure_storage_account_name", name);
	Add(json, "azure_storage_account_key", key);
	Add(json, "azure_storage_sas_key", signature);
	Add(json, "azure_storage_endpoint", endpoint);
	if (StringUtil::StartsWith(endpoint, "http://")) {
		Add(json, "azure_allow_http", "true");
	}
	// a service principal
	Add(json, "azure_storage_tenant_id", TextOf(secret, "tenant_id"));
	Add(json, "azure_storage_client_id", TextOf(secret, "client_id"));
	Add(json, "azure_storage_client_secret", TextOf(secret, "client_secret"));
	return json.size() > 1 ? json + "}" : string();
}

} // namespace

string RemoteConfiguration(ClientContext &context, const string &path) {
	auto colon = path.find("://");
	if (colon == string::npos) {
		return string();
	}
	auto scheme = StringUtil::Lower(path.substr(0, colon));
	auto s3 = scheme == "s3" || scheme == "s3a";
	auto gcs = scheme == "gs" || scheme == "gcs";
	auto azure = scheme == "az" || scheme == "azure" || scheme == "abfs" || scheme == "abfss";
	if (!s3 && !gcs && !azure) {
		return string();
	}
	auto &manager = SecretManager::Get(context);
	auto transaction = CatalogTransaction::GetSystemCatalogTransaction(context);
	for (auto type : {SECRET_TYPE, s3 ? "s3" : gcs ? "gcs" : "azure"}) {
		auto match = manager.LookupSecret(transaction, path, type);
		if (!match.HasMatch()) {
			continue;
		}
		auto secret = dynamic_cast<const KeyValueSecret *>(&match.GetSecret());
		if (secret) {
			return s3 ? S3Configuration(*secret, path) : gcs ? GcsConfiguration(*secret) : AzureConfiguration(*secret);
		}
	}
	return string();
}

void RegisterSecrets(ExtensionLoader &loader) {
	SecretType type;
	type.name = SECRET_TYPE;
	type.deserializer = KeyValueSecret::Deserialize<KeyValueSecret>;
	type.default_provider = "config";
	type.extension = "pensieve";
	loader.RegisterSecretType(type);
	CreateSecretFunction function;
	function.secret_type = SECRET_TYPE;
	function.provider = "config";
	function.function = CreateSecret;
	for (auto &name : Parameters()) {
		function.named_parameters[Identifier(name)] = LogicalType::VARCHAR;
	}
	function.named_parameters["use_ssl"] = LogicalType::BOOLEAN;
	loader.RegisterFunction(std::move(function));
}

} // namespace pensieve
