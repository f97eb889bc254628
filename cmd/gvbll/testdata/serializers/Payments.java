// Sends payments to a topic with the serializer of Apicurio Registry, which registers each schema at its first record:
// a line "schema payment card amount-in-tenths time country new" of standard input is a record.

import io.apicurio.registry.serde.Legacy4ByteIdHandler;
import io.apicurio.registry.serde.SerdeConfig;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.Scanner;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Payments {
    public static void main(String[] args) throws Exception { // brokers, registry, topic, files of schemas
        var p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("key.serializer", ByteArraySerializer.class.getName());
        p.put("value.serializer", AvroKafkaSerializer.class.getName());
        p.put(SerdeConfig.REGISTRY_URL, args[1]);
        p.put(SerdeConfig.AUTO_REGISTER_ARTIFACT, true);
        p.put(SerdeConfig.ENABLE_HEADERS, false);
        p.put(SerdeConfig.ID_HANDLER, Legacy4ByteIdHandler.class.getName());
        p.put(SerdeConfig.USE_ID, "contentId");
        p.put(SerdeConfig.AUTH_USERNAME, "gvbll");
        p.put(SerdeConfig.AUTH_PASSWORD, "secret");
        try (var to = new KafkaProducer<byte[], Object>(p); var in = new Scanner(System.in)) {
            while (in.hasNext()) {
                var schema = new Schema.Parser().parse(Files.readString(Path.of(args[3 + in.nextInt()])));
                var r = new GenericData.Record(schema);
                r.put("payment", in.nextLong());
                r.put("card", in.next());
                long tenths = in.nextLong();
                boolean isDecimal = schema.getField("amount").schema().getType() == Schema.Type.BYTES;
                r.put("amount", isDecimal ? ByteBuffer.wrap(BigInteger.valueOf(tenths).toByteArray()) : (Object) (tenths / 10.0));
                r.put("at", in.nextLong());
                for (var name : new String[] {"country", "new"}) {
                    String text = in.next();
                    if (schema.getField(name) != null) r.put(name, name.equals("new") ? (Object) Boolean.valueOf(text) : text);
                }
                to.send(new ProducerRecord<>(args[2], r)).get();
            }
        }
    }
}
