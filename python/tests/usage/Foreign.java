package foreignrule;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ColumnarRule;
import org.apache.spark.sql.execution.ProjectExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import scala.runtime.BoxedUnit;

/** Another extension with a columnar rule: a node between each shuffle and what reads it. */
@SuppressWarnings({"unchecked", "rawtypes"})
public class Foreign implements scala.Function1<SparkSessionExtensions, BoxedUnit> {
  public static final AtomicInteger put = new AtomicInteger();

  static SparkPlan walk(SparkPlan plan) {
    return (SparkPlan) plan.mapChildren(child -> {
      SparkPlan below = walk((SparkPlan) child);
      if (!(below instanceof ShuffleExchangeExec)) return below;
      put.incrementAndGet();
      return new ProjectExec((scala.collection.immutable.Seq) below.output(), below);
    });
  }

  public static class After extends Rule<SparkPlan> {
    public SparkPlan apply(SparkPlan plan) {
      return walk(plan);
    }
  }

  public static class Wrap extends ColumnarRule {
    public Rule<SparkPlan> postColumnarTransitions() {
      return new After();
    }
  }

  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectColumnar(session -> new Wrap());
    return BoxedUnit.UNIT;
  }
}
