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

string S3Configuration(const KeyValueSecret &secret) {
	string json = "{";
	Add(json, "aws_access_key_id", TextOf(secret, "key_id"));
	Add(json, "aws_secret_access_key", TextOf(secret, "secret"));
	Add(json, "aws_session_token", TextOf(secret, "session_token"));
	Add(json, "aws_region", TextOf(secret, "region"));
	auto endpoint = TextOf(secret, "endpoint");
	auto use_ssl = secret.TryGetValue(Identifier("use_ssl"));
	auto plain = !use_ssl.IsNull() && !BooleanValue::Get(use_ssl.DefaultCastAs(LogicalType::BOOLEAN));
	if (!endpoint.empty()) {
		if (!StringUtil::Contains(endpoint, "://")) {
			endpoint = (plain ? "http://" : "https://") + endpoint;
		}
		Add(json, "aws_endpoint", endpoint);
		if (StringUtil::StartsWith(endpoint, "http://")) {
			Add(json, "aws_allow_http", "true");
		}
	}
	auto style = StringUtil::Lower(TextOf(secret, "url_style"));
	if (!style.empty()) {
		Add(json, "aws_virtual_hosted_style_request", style == "path" ? "false" : "true");
	}
	return json + "}";
}

string GcsConfiguration(const KeyValueSecret &secret) {
	string json = "{";
	Add(json, "google_service_account_key", TextOf(secret, "service_account_key"));
	return json.size() > 1 ? json + "}" : string();
}

string AzureConfiguration(const KeyValueSecret &secret) {
	string json = "{";
	auto name = TextOf(secret, "account_name");
	auto key = TextOf(secret, "account_key");
	auto connection = TextOf(secret, "connection_string");
	for (auto &part : StringUtil::Split(connection, ';')) {
		auto equals = part.find('=');
		if (equals != string::npos) {
			auto field = part.substr(0, equals);
			name = field == "AccountName" ? part.substr(equals + 1) : name;
			key = field == "AccountKey" ? part.substr(equals + 1) : key;
		}
	}
	Add(json, "azure_storage_account_name", name);
	Add(json, "azure_storage_account_key", key);
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
			return s3 ? S3Configuration(*secret) : gcs ? GcsConfiguration(*secret) : AzureConfiguration(*secret);
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
