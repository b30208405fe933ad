// Secrets that other extensions define, as a host that has those extensions sees them: the types `s3` and `gcs` with
// the parameters of httpfs and `azure` with those of the azure extension are registered here, a store is attached at a
// listener on loopback, and the requests have to carry what the secret says.
//
//   secrets build/release/pensieve.duckdb_extension
#include "duckdb.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/main/secret/secret.hpp"

#include <arpa/inet.h>
#include <cstdio>
#include <mutex>
#include <netinet/in.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace duckdb; // NOLINT: a test of DuckDB's own classes

namespace {

int passed = 0;
int failed = 0;

void Expect(bool holds, const std::string &what, const std::string &detail) {
	if (holds) {
		passed++;
		return;
	}
	failed++;
	std::printf("FAIL %s: %s\n", what.c_str(), detail.c_str());
}

//! Answers every listing with nothing and every object with 404, and keeps the requests.
class Listener {
  public:
	Listener() {
		socket_fd = socket(AF_INET, SOCK_STREAM, 0);
		sockaddr_in address {};
		address.sin_family = AF_INET;
		address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		socklen_t length = sizeof(address);
		if (bind(socket_fd, reinterpret_cast<sockaddr *>(&address), length) != 0 || listen(socket_fd, 64) != 0 ||
		    getsockname(socket_fd, reinterpret_cast<sockaddr *>(&address), &length) != 0) {
			std::perror("listener");
			std::exit(2);
		}
		port = ntohs(address.sin_port);
		std::thread([this]() { Serve(); }).detach();
	}

	std::string Endpoint() const {
		return "127.0.0.1:" + std::to_string(port);
	}
	//! The requests since the last call, in lower case.
	std::string Take() {
		std::lock_guard<std::mutex> guard(lock);
		std::string taken;
		taken.swap(requests);
		return StringUtil::Lower(taken);
	}

  private:
	void Serve() {
		while (true) {
			auto connection = accept(socket_fd, nullptr, nullptr);
			if (connection < 0) {
				return;
			}
			std::string request;
			char buffer[4096];
			while (request.find("\r\n\r\n") == std::string::npos) {
				auto count = read(connection, buffer, sizeof(buffer));
				if (count <= 0) {
					break;
				}
				request.append(buffer, static_cast<size_t>(count));
			}
			{
				std::lock_guard<std::mutex> guard(lock);
				requests += request + "\n";
			}
			auto line = request.substr(0, request.find("\r\n"));
			std::string body = "<Error><Code>NoSuchKey</Code></Error>";
			std::string status = "404 Not Found";
			if (line.find("list-type=2") != std::string::npos) {
				status = "200 OK";
				body = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
			} else if (line.find("comp=list") != std::string::npos) {
				status = "200 OK";
				body = "<EnumerationResults><Blobs></Blobs><NextMarker/></EnumerationResults>";
			}
			auto answer = "HTTP/1.1 " + status +
			              "\r\nContent-Type: application/xml\r\nConnection: close\r\nContent-Length: " +
			              std::to_string(body.size()) + "\r\n\r\n" + body;
			(void)!write(connection, answer.data(), answer.size());
			close(connection);
		}
	}

	int socket_fd;
	int port;
	std::mutex lock;
	std::string requests;
};

//! Keeps every parameter that was given.
unique_ptr<BaseSecret> Create(ClientContext &, CreateSecretInput &input) {
	auto scope = input.scope;
	if (scope.empty()) {
		if (input.type == "s3") {
			scope = {"s3://", "s3n://", "s3a://"};
		} else if (input.type == "gcs") {
			scope = {"gcs://", "gs://"};
		} else {
			scope = {"azure://", "az://", "abfss://"};
		}
	}
	auto result = make_uniq<KeyValueSecret>(scope, input.type, input.provider, input.name);
	for (auto &option : input.options) {
		result->secret_map[Identifier(option.first)] = option.second;
	}
	return std::move(result);
}

void Register(ExtensionLoader &loader, const std::string &name, const std::vector<std::string> &parameters) {
	SecretType type;
	type.name = Identifier(name);
	type.deserializer = KeyValueSecret::Deserialize<KeyValueSecret>;
	type.default_provider = "config";
	type.extension = "host";
	loader.RegisterSecretType(type);
	CreateSecretFunction function;
	function.secret_type = name;
	function.provider = "config";
	function.function = Create;
	for (auto &parameter : parameters) {
		function.named_parameters[Identifier(parameter)] = LogicalType::VARCHAR;
	}
	function.named_parameters["use_ssl"] = LogicalType::BOOLEAN;
	function.named_parameters["requester_pays"] = LogicalType::BOOLEAN;
	loader.RegisterFunction(std::move(function));
}

struct Case {
	std::string secret;
	std::string address;
	//! Parts, in lower case, that the requests have, and some that they must not have.
	std::vector<std::string> present;
	std::vector<std::string> absent;
};

} // namespace

int main(int argument_count, char **arguments) {
	if (argument_count != 2) {
		std::fprintf(stderr, "usage: %s EXTENSION\n", arguments[0]);
		return 2;
	}
	// what the environment of the test has must neither help nor disturb
	for (auto name : {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_ENDPOINT",
	                  "AWS_ENDPOINT_URL", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"}) {
		unsetenv(name);
	}
	Listener listener;
	DBConfig config;
	config.SetOptionByName("allow_unsigned_extensions", Value::BOOLEAN(true));
	config.SetOptionByName("autoinstall_known_extensions", Value::BOOLEAN(false));
	config.SetOptionByName("autoload_known_extensions", Value::BOOLEAN(false));
	DuckDB database(nullptr, &config);
	ExtensionLoader loader(*database.instance, "host");
	Register(loader, "s3", {"key_id", "secret", "session_token", "region", "endpoint", "url_style", "kms_key_id"});
	Register(loader, "gcs", {"key_id", "secret", "session_token", "region", "endpoint", "url_style"});
	Register(loader, "azure", {"account_name", "connection_string", "tenant_id", "client_id", "client_secret"});
	Connection connection(database);
	auto loaded = connection.Query("LOAD '" + std::string(arguments[1]) + "'");
	Expect(!loaded->HasError(), "LOAD", loaded->HasError() ? loaded->GetError() : "");

	auto endpoint = "ENDPOINT '" + listener.Endpoint() + "'";
	auto plain = endpoint + ", URL_STYLE 'path', USE_SSL false";
	auto port = listener.Endpoint().substr(listener.Endpoint().find(':'));
	std::vector<Case> cases {
	    {"TYPE s3, KEY_ID 'AKIDPATH', SECRET 'topsecret', REGION 'eu-north-7', SESSION_TOKEN 'tok123', " + plain,
		 "s3://bucket-one/lake",
		 {" /bucket-one", "credential=akidpath/", "/eu-north-7/s3/", "x-amz-security-token: tok123",
		  "host: 127.0.0.1" + port},
		 {"topsecret"}},
	    {"TYPE s3, REGION 'us-east-1', " + plain,
		 "s3://bucket-anonymous/lake",
		 {" /bucket-anonymous"},
		 {"credential="}},
	    {"TYPE s3, KEY_ID 'AKIDPAYS', SECRET 's', REQUESTER_PAYS true, " + plain,
		 "s3://bucket-pays/lake",
		 {"credential=akidpays/", "x-amz-request-payer: requester"},
		 {}},
	    {"TYPE s3, KEY_ID 'AKIDHOST', SECRET 's', ENDPOINT 'localhost" + port + "', URL_STYLE 'vhost', USE_SSL false",
		 "s3://bucket-host/lake",
		 {"bucket-host.localhost" + port},
		 {" /bucket-host"}},
	    // the name need not resolve: the error says where the request was to go
	    {"TYPE gcs, KEY_ID 'GOOGKEY', SECRET 'topsecret', " + plain,
		 "gs://bucket-google/lake",
		 {" /bucket-google", "credential=googkey/"},
		 {"topsecret"}},
	    {"TYPE azure, CONNECTION_STRING 'DefaultEndpointsProtocol=http;AccountName=devaccount;AccountKey=a2V5a2V5;"
		 "BlobEndpoint=http://" +
		     listener.Endpoint() + "/devaccount;'",
		 "az://container-one/lake",
		 {" /devaccount/container-one", "authorization: sharedkey devaccount:"},
		 {"a2v5a2v5"}},
	};
	for (auto &test : cases) {
		auto created = connection.Query("CREATE OR REPLACE SECRET one (" + test.secret + ")");
		Expect(!created->HasError(), test.secret, created->HasError() ? created->GetError() : "");
		listener.Take();
		// an empty store: what is asked for, not the answer, is of interest
		auto attached = connection.Query("ATTACH '" + test.address + "' AS lake (TYPE pensieve, READ_ONLY)");
		auto answer = attached->HasError() ? attached->GetError() : std::string();
		auto listed = connection.Query("SELECT count(*) FROM duckdb_tables() WHERE database_name = 'lake'");
		answer += listed->HasError() ? listed->GetError() : std::string();
		auto requests = listener.Take() + StringUtil::Lower(answer);
		Expect(!requests.empty(), test.secret, "no request");
		for (auto &part : test.present) {
			Expect(requests.find(part) != std::string::npos, test.secret, "no '" + part + "' in " + requests);
		}
		for (auto &part : test.absent) {
			Expect(requests.find(part) == std::string::npos, test.secret, "'" + part + "' in " + requests);
		}
		connection.Query("DETACH DATABASE IF EXISTS lake");
		connection.Query("DROP SECRET one");
	}
	std::printf("%d passed, %d failed\n", passed, failed);
	return failed ? 1 : 0;
}
